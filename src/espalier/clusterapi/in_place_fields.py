"""The table of fields that a machine can get in place, and how a field is found in it. Pure.

A machine that is upgraded in place gets another Kubernetes version, what kubeadm applies with it, and what the upgrader
program writes on its node. What no row names is refused by name. A row names a field and all that is below it.
"""

from __future__ import annotations

from collections.abc import Iterable

from espalier.clusterapi.bootstrap_changes import FILES, FLAGS, PATCHES
from espalier.clusterapi.infrastructure import Infrastructure

_CLUSTER = "bootstrap.clusterConfiguration"
COMPONENTS = ("apiServer", "controllerManager", "scheduler")
COMPONENT_PARTS = ("extraArgs", "extraEnvs", "extraVolumes")
"""Parts of a component's configuration with which kubeadm renders another static pod, and nothing else."""
ETCD_PARTS = ("imageRepository", "imageTag", "extraArgs", "extraEnvs")
"""The same of `etcd.local`."""

NODE_FIELDS: tuple[str, ...] = tuple(f"bootstrap.{field}" for field in (FILES, FLAGS, PATCHES))
"""Fields that the upgrader writes on nodes, or gives to kubeadm; `bootstrap_changes.only_new` names the others."""

CONTROL_PLANE_FIELDS: tuple[str, ...] = (
    f"{_CLUSTER}.imageRepository",
    f"{_CLUSTER}.featureGates",
    *(f"{_CLUSTER}.etcd.local.{part}" for part in ETCD_PARTS),
    *(f"{_CLUSTER}.{component}.{part}" for component in COMPONENTS for part in COMPONENT_PARTS),
    *NODE_FIELDS,
)
"""Of the KubeadmConfig of a control plane machine: parts of kubeadm-config that kubeadm renders static pods of, too."""

WORKER_FIELDS: tuple[str, ...] = NODE_FIELDS
"""Of a worker's KubeadmConfigTemplate: `bootstrap.` and a field of its `spec.template.spec`."""

INFRASTRUCTURE = "infrastructure"
"""Another infrastructure template, of whose content no field differs, or nothing is known."""

BOOTSTRAP_TEMPLATE = "bootstrap.configRef"
"""Another bootstrap template, of whose content nothing is known."""

BOOTSTRAP_TEMPLATE_NAME = "bootstrap.configRef.name"
"""Another bootstrap template of the same content."""

_OF_EVERY_MACHINE = frozenset({"version", INFRASTRUCTURE, BOOTSTRAP_TEMPLATE_NAME})

TEMPLATE = "template.spec."
"""Below the spec of a template: where that of a machine is."""


def ignored_fields(infrastructure: Infrastructure | None) -> frozenset[str]:
    """Fields of a machine template, like `infrastructure.image`, in which a running machine never differs."""
    fields = infrastructure.image_fields | infrastructure.provisioning_fields if infrastructure else ()
    return frozenset(f"{INFRASTRUCTURE}.{field.removeprefix(TEMPLATE)}" for field in fields)


def refused(fields: Iterable[str], rows: Iterable[str], infrastructure: Infrastructure | None) -> tuple[str, ...]:
    """The fields of a machine that it can't get in place; those of its template are called like `infrastructure.image`.

    `rows` is the part of the table for machines of this kind. Of files and flags, an item is named where it is refused.
    """
    accepted = (*rows, *ignored_fields(infrastructure))
    return tuple(
        field
        for field in fields
        if field.startswith(tuple(f"{one}[" for one in NODE_FIELDS))
        or (field not in _OF_EVERY_MACHINE and not any(is_within(field, one) for one in accepted))
    )


def is_within(field: str, whole: str) -> bool:
    """True if a field is another, or below it."""
    return field == whole or field.startswith((f"{whole}.", f"{whole}["))


def sentence(fields: Iterable[str], machine: str) -> str:
    """Which fields can't be changed in place, and what to do."""
    return (
        f"{', '.join(fields)} of {machine} can't be changed in place: revert the change, or set "
        "upgradeRolloutStrategy.fallback to RollingUpdate, or its type, to replace the machines"
    )
