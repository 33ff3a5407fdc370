"""Which differences of a machine can be made where it stands, whoever asks: who plans, and who upgrades. Pure.

A machine that is upgraded in place gets another Kubernetes version, and with it what kubeadm applies by itself; nothing
that only a machine made anew would have.
"""

from __future__ import annotations

from collections.abc import Iterable

from espalier.clusterapi.infrastructure import Infrastructure

ETCD = "bootstrap.clusterConfiguration.etcd.local"
IN_PLACE_FIELDS: frozenset[str] = frozenset(
    {
        "version",
        "infrastructure",
        f"{ETCD}.imageRepository",
        f"{ETCD}.imageTag",
        "bootstrap.clusterConfiguration.featureGates",
        "bootstrap.clusterConfiguration.featureGates.ControlPlaneKubeletLocalMode",
    }
)
"""Fields that a machine can get in place. Of `infrastructure`, the template, the content is looked at as well."""

_TEMPLATE = "template.spec."


def ignored_fields(infrastructure: Infrastructure | None) -> frozenset[str]:
    """Fields of a machine template in which a running machine does not differ from what is asked for."""
    return infrastructure.image_fields | infrastructure.provisioning_fields if infrastructure else frozenset()


def refused(fields: Iterable[str], infrastructure: Infrastructure | None) -> tuple[str, ...]:
    """The fields of a machine that it can't get in place; of its template by the content, like `infrastructure.image`.

    A bootstrap template that differs by name alone is the same.
    """
    accepted = {
        *IN_PLACE_FIELDS,
        "bootstrap.configRef.name",
        *(f"infrastructure.{field.removeprefix(_TEMPLATE)}" for field in ignored_fields(infrastructure)),
    }
    return tuple(field for field in fields if field not in accepted)


def sentence(fields: Iterable[str], machine: str) -> str:
    """Which fields stand in the way, and what helps."""
    return (
        f"{', '.join(fields)} of {machine} can't be changed in place: take the change back, "
        "or set upgradeRolloutStrategy.fallback to RollingUpdate to have the machines replaced"
    )
