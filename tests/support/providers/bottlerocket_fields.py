"""Values of every field of `hostOSConfiguration` on machines with Bottlerocket."""

from __future__ import annotations

from typing import Any

from tests.support.providers.bottlerocket import OF_KUBELETS
from tests.support.providers.field_sweep import Values
from tests.support.providers.nutanix import AUTHORITY

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


_SIGNALS = {"nodefs.inodesFree": "10%", "pid.available": "100"}
_OWN: dict[str, tuple[list[Any], list[Any]]] = {
    "allowedUnsafeSysctls": ([["net.core.*", "kernel.msgmax"]], [["a b"], ["net.core.somaxconn\n"]]),
    "clusterDNSIPs": ([["10.0.0.10", "fd00::a"]], [["dns.example.com"], ["10.0.0.10", ""]]),
    "containerLogMaxSize": (["10M"], ["10 MB", "-1Mi"]),
    "cpuManagerPolicy": (["none"], ["fast"]),
    "cpuManagerReconcilePeriod": (["1m30s"], ["soon", "-1s"]),
    "evictionHard": ([_SIGNALS], [{"disk.available": "5%"}, {"memory.available": "lots"}]),
    "evictionSoft": ([_SIGNALS], [{"disk.available": "5%"}, {"memory.available": "101%"}]),
    "evictionSoftGracePeriod": ([{"memory.available": "2m"}], [{"memory": "1m"}, {"memory.available": "-1m"}]),
    "imageGCHighThresholdPercent": ([100], [101, 60]),
    "imageGCLowThresholdPercent": ([0], [-1, 80]),
    "kubeReserved": ([{"memory": "1Gi"}], [{"gpu": "1"}, {"cpu": "fast"}]),
    "maxPods": ([110], [-1]),
    "memoryManagerPolicy": (["Static"], ["static"]),
    "podPidsLimit": ([-1], []),
    "shutdownGracePeriod": (["2m"], ["-2m"]),
    "shutdownGracePeriodCriticalPods": (["10s"], ["soon"]),
    "systemReserved": ([{"ephemeral-storage": "1Gi"}], [{"disk": "1"}, {"memory": "-1"}]),
    "topologyManagerPolicy": (["best-effort"], ["best"]),
    "topologyManagerScope": (["container"], ["node"]),
}
"""Accepted and refused values of fields with a form of their own."""


def _values(name: str, example: Any) -> Values:
    accepted, refused = _OWN.get(name, (_OTHERS[type(example)], []))
    return Values(accepted, [*refused, *_WRONG[type(example)]])


def _bundle(**fields: Any) -> list[Any]:
    return [{"name": "company", "data": AUTHORITY} | fields]


FIELDS: dict[str, Values] = {
    "hostOSConfiguration.ntpConfiguration.servers[]": Values(
        [["10.0.0.1"], ["169.254.169.123", "127.example.com"]],
        [[], ["a b"], ["127.0.0.1"], ["a", "::1"], ["LOCALHOST"], ["0.0.0.0"]],
    ),
    "hostOSConfiguration.certBundles[].name": Values(
        [[], _bundle(name="a-B_9")], [_bundle(name=""), _bundle(name="a.b"), _bundle(name="a]\nb"), _bundle() * 17]
    ),
    "hostOSConfiguration.certBundles[].data": Values(
        [_bundle(data=AUTHORITY * 2), _bundle(data=AUTHORITY.replace("MII", "MI!"))],
        [_bundle(data=""), _bundle(data="-----BEGIN PRIVATE KEY-----"), _bundle(data=AUTHORITY + "PRIVATE KEY")],
    ),
    "hostOSConfiguration.bottlerocketConfiguration.boot.bootKernelParameters{}": Values(
        [{}, {"console": ["tty0"]}, {"quiet": []}, {"systemd.log-level": ["a b"]}],
        [{"console": "tty0"}, {"console": ["x" * 513]}, {"a b": []}, {"": []}, {"a=b": []}, {"console": ["a\nb"]}],
    ),
    "hostOSConfiguration.bottlerocketConfiguration.kernel.sysctlSettings{}": Values(
        [{}, {"vm.max_map_count": "1"}, {"net/ipv4/tcp_rmem": "4096 87380 6291456"}],
        [{"vm.max_map_count": 1}, {"a": "x" * 513}, {"vm max": "1"}, {"vm.max_map_count": ""}, {"a": "b\nc"}],
    ),
    f"{_KUBELETS}providerID": Values([], ["vsphere://1"]),
    **{
        f"{_KUBELETS}{name}{'[]' if isinstance(value, list) else '{}' if isinstance(value, dict) else ''}": _values(
            name, value
        )
        for name, value in OF_KUBELETS.items()
    },
}
"""By path: `[]` is the whole list, `{}` the whole map."""


def path_of(field: str) -> str:
    """Where the value of a field is put."""
    return field.partition("{}")[0]
