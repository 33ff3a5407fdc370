"""The table of fields that can change in place on a machine, and how a field is looked up. Pure.

A machine that is upgraded in place gets another Kubernetes version, what kubeadm applies with it, and what the upgrader
program writes on its node. A field that no row names is refused by name. A row covers a field and everything below it.
"""

from __future__ import annotations

from collections.abc import Iterable

from espalier.clusterapi.changes.bootstrap_changes import FILES, FLAGS, PATCHES
from espalier.clusterapi.infrastructures.infrastructure import Infrastructure

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
"""In the KubeadmConfig of a control plane machine: parts of kubeadm-config from which kubeadm also renders static pods.
"""

WORKER_FIELDS: tuple[str, ...] = NODE_FIELDS
"""In a worker's KubeadmConfigTemplate: `bootstrap.` and a field of its `spec.template.spec`."""

INFRASTRUCTURE = "infrastructure"
"""Another infrastructure template whose content has no different field, or is unknown."""

BOOTSTRAP_TEMPLATE = "bootstrap.configRef"
"""Another bootstrap template whose content is unknown."""

BOOTSTRAP_TEMPLATE_NAME = "bootstrap.configRef.name"
"""Another bootstrap template with the same content."""

_OF_EVERY_MACHINE = frozenset({"version", INFRASTRUCTURE, BOOTSTRAP_TEMPLATE_NAME})

TEMPLATE = "template.spec."
"""The path of a machine's spec below the spec of a template."""


def ignored_fields(infrastructure: Infrastructure | None) -> frozenset[str]:
    """Fields of a machine template, like `infrastructure.image`, that are ignored for a running machine."""
    fields = infrastructure.image_fields | infrastructure.provisioning_fields if infrastructure else ()
    return frozenset(f"{INFRASTRUCTURE}.{field.removeprefix(TEMPLATE)}" for field in fields)


def refused(fields: Iterable[str], rows: Iterable[str], infrastructure: Infrastructure | None) -> tuple[str, ...]:
    """The fields of a machine that can't change in place; those of its template are named like `infrastructure.image`.

    `rows` is the part of the table for machines of this kind. Refused files and flags are named one by one.
    """
    accepted = (*rows, *ignored_fields(infrastructure))
    return tuple(
        field
        for field in fields
        if field.startswith(tuple(f"{name}[" for name in NODE_FIELDS))
        or (field not in _OF_EVERY_MACHINE and not any(is_within(field, row) for row in accepted))
    )


def is_within(field: str, ancestor: str) -> bool:
    """True if a field equals another, or is below it."""
    return field == ancestor or field.startswith((f"{ancestor}.", f"{ancestor}["))


def sentence(fields: Iterable[str], machine: str) -> str:
    """The message with the fields that can't be changed in place, and what to do."""
    return (
        f"{', '.join(fields)} of {machine} can't be changed in place: revert the change, or set "
        "upgradeRolloutStrategy.fallback to RollingUpdate, or its type, to replace the machines"
    )
