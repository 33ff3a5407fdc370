"""Values of every field of `hostOSConfiguration` on machines with Bottlerocket."""

from __future__ import annotations

from typing import Any

from tests.support.bottlerocket import OF_KUBELETS
from tests.support.nutanix import AUTHORITY
from tests.unit.providers.sweep import Values

_KUBELETS = "hostOSConfiguration.bottlerocketConfiguration.kubernetes."
_OTHERS: dict[type, list[Any]] = {
    bool: [True],
    int: [7],
    str: ["another"],
    list: [["another"], ["a", "b"]],
    dict: [{"another": "1"}],
}
"""Accepted values by the type of what stands in the example."""
_WRONG: dict[type, list[Any]] = {
    bool: ["yes"],
    int: ["7", 1.5],
    str: [1, "x" * 513],
    list: ["a", ["a"] * 101, [1]],
    dict: ["a", {"a": 1}, {"a": "x" * 513}],
}


def _bundle(**fields: Any) -> list[Any]:
    return [{"name": "company", "data": AUTHORITY} | fields]


FIELDS: dict[str, Values] = {
    "hostOSConfiguration.ntpConfiguration.servers[]": Values([["10.0.0.1"]], [[], ["a b"]]),
    "hostOSConfiguration.certBundles[].name": Values(
        [[], _bundle(name="a-B_9")], [_bundle(name=""), _bundle(name="a.b"), _bundle(name="a]\nb"), _bundle() * 17]
    ),
    "hostOSConfiguration.certBundles[].data": Values(
        [_bundle(data=AUTHORITY * 2), _bundle(data=AUTHORITY.replace("MII", "MI!"))],
        [_bundle(data=""), _bundle(data="-----BEGIN PRIVATE KEY-----"), _bundle(data=AUTHORITY + "PRIVATE KEY")],
    ),
    "hostOSConfiguration.bottlerocketConfiguration.boot.bootKernelParameters{}": Values(
        [{}, {"console": ["tty0"]}, {"quiet": []}], [{"console": "tty0"}, {"console": ["x" * 513]}]
    ),
    "hostOSConfiguration.bottlerocketConfiguration.kernel.sysctlSettings{}": Values(
        [{}, {"vm.max_map_count": "1"}], [{"vm.max_map_count": 1}, {"a": "x" * 513}]
    ),
    f"{_KUBELETS}providerID": Values([], ["vsphere://1"]),
    **{
        f"{_KUBELETS}{name}{'[]' if isinstance(value, list) else '{}' if isinstance(value, dict) else ''}": Values(
            _OTHERS[type(value)], _WRONG[type(value)]
        )
        for name, value in OF_KUBELETS.items()
    },
}
"""By path: `[]` is the whole list, `{}` the whole map."""


def path_of(field: str) -> str:
    """Where the value of a field is put."""
    return field.partition("{}")[0]
