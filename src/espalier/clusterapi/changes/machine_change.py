"""The effect of a change on a machine: nothing, an update in place, or a replacement (as Cluster API decides it).

A machine is replaced when its version, bootstrap configuration, infrastructure template or failure domain differs.
Labels, annotations, deletion timeouts, taints, readiness gates and minReadySeconds are updated in place. An unknown
part of a machine (its KubeadmConfig or infrastructure object is gone, or does not name its template) is no reason to
replace it. Callers handle the dates of `rollout.before` and `rollout.after`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

import msgspec

from espalier.api.capi.cluster import ContractReference
from espalier.api.capi.etcdadm import EtcdadmCluster
from espalier.api.capi.kubeadm import ControlPlaneMachineSpec, KubeadmConfig, KubeadmControlPlane
from espalier.api.capi.machine import Machine, MachineSpec, MachineTemplate, TemplateMeta
from espalier.api.meta import ObjectMeta, Tree
from espalier.api.text import paths
from espalier.api.text.versions import parsed
from espalier.clusterapi import names

CLONED_FROM_NAME, CLONED_FROM_GROUP_KIND = names.CLONED_FROM_NAME, names.CLONED_FROM_KIND

_OWN_DOMAIN = "cluster.x-k8s.io"
_LOCAL_MODE = "ControlPlaneKubeletLocalMode"
_LOCAL_MODE_MINORS = range(31, 36)
_CONTAINERS = (dict, list)
_NUMBERS = (int, float)
_IN_PLACE = ("deletion", "minReadySeconds", "readinessGates", "taints")


class Template(NamedTuple):
    """The template that an object was created from. `group_kind` as Cluster API writes it: `Kind.group`."""

    group_kind: str
    name: str


class ChangeKind(Enum):
    """The kind of change to a machine."""

    NOTHING = "Nothing"
    IN_PLACE = "InPlace"
    REPLACE = "Replace"


class MachineChange(msgspec.Struct, frozen=True):
    """The kind of change, and the fields that cause it (among all differences, those with the largest effect)."""

    kind: ChangeKind
    fields: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.kind is not ChangeKind.NOTHING


class MachineParts(msgspec.Struct, frozen=True):
    """The parts of a machine, present or desired. None stands for an unknown part."""

    version: str = ""
    bootstrap: Tree | None = None
    """Spec of the KubeadmConfig, or for machines of a MachineDeployment the reference to their template."""
    is_completed: bool = False
    """True if Cluster API adds to the bootstrap configuration by version (`control_plane_bootstrap`)."""
    infrastructure: Template | None = None
    failure_domain: str = ""
    in_place: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """Labels, annotations and the fields of the machine's spec that are updated in place."""
    is_of_group: bool = False
    """True for machines of a worker node group: then `bootstrap` is the reference to a template."""
    has_foreign_fields: bool = False
    """True if others may add labels and annotations; then only the desired ones are compared."""

    @property
    def bootstrap_template(self) -> str:
        """The name of a worker's KubeadmConfigTemplate; empty without one."""
        return str(((self.bootstrap or {}).get("configRef") or {}).get("name", "")) if self.is_of_group else ""


def machine_change(current: MachineParts, desired: MachineParts) -> MachineChange:
    """Compare a machine with its desired state."""
    replace = reasons_to_replace(current, desired)
    if replace:
        return MachineChange(ChangeKind.REPLACE, replace)
    before = _only_desired_keys(current.in_place, desired.in_place) if current.has_foreign_fields else current.in_place
    if before == desired.in_place:
        return MachineChange(ChangeKind.NOTHING)
    in_place = tuple(sorted(differences(_pruned(before), _pruned(desired.in_place))))
    return MachineChange(ChangeKind.IN_PLACE, in_place) if in_place else MachineChange(ChangeKind.NOTHING)


def reasons_to_replace(current: MachineParts, desired: MachineParts) -> tuple[str, ...]:
    """The fields that require a replacement, without those that change in place."""
    return tuple(_reasons_to_replace(current, desired))


def of_control_plane(control_plane: KubeadmControlPlane) -> MachineParts:
    """The desired parts of control plane machines."""
    template = control_plane.spec.machine_template
    return MachineParts(
        version=control_plane.spec.version,
        bootstrap=msgspec.to_builtins(control_plane.spec.kubeadm_config_spec),
        is_completed=True,
        infrastructure=_template(template.spec.infrastructure_ref),
        in_place=_in_place(template.metadata, template.spec),
    )


def control_plane_bootstrap(spec: Tree, version: str) -> Tree:
    """The KubeadmConfig spec of control plane machines: that of the control plane, and Cluster API's additions by
    version.

    From 1.31 until 1.36, where it is always on, Cluster API adds a feature gate of kubeadm unless the spec sets it.
    Cluster API adds nothing for an invalid version, which somebody must have written past its webhook.
    """
    parsed_version = parsed(version)
    if parsed_version is None or parsed_version.major != 1 or parsed_version.minor not in _LOCAL_MODE_MINORS:
        return spec
    cluster = spec.get("clusterConfiguration") or {}
    gates = {_LOCAL_MODE: True, **(cluster.get("featureGates") or {})}
    return {**spec, "clusterConfiguration": {**cluster, "featureGates": gates}}


def of_control_plane_machine(
    machine: Machine, config: KubeadmConfig | None, infrastructure: ObjectMeta | None
) -> MachineParts:
    """The parts of a control plane machine; `infrastructure` is the metadata of its infrastructure object."""
    return MachineParts(
        version=machine.spec.version,
        bootstrap=msgspec.to_builtins(config.spec) if config else None,
        infrastructure=_cloned_from(infrastructure),
        in_place=_in_place(machine.metadata, machine.spec),
        has_foreign_fields=True,
    )


def lost_config(machine: Machine, config: object | None) -> str:
    """The reason why a machine without its KubeadmConfig is not upgraded in place, and the remedy; empty for others."""
    reference = machine.spec.bootstrap.config_ref
    if config is not None or reference is None:
        return ""
    problem = f"KubeadmConfig {reference.name} of Machine {machine.metadata.name} does not exist"
    advice = "restore it, or delete the Machine to replace it, unless it is the only one of a control plane"
    return f"{problem}, so the changes that its node lacks are unknown: {advice}"


def of_etcd(etcd: EtcdadmCluster) -> MachineParts:
    """The desired parts of external etcd machines."""
    reference = etcd.spec.infrastructure_template
    group = reference.api_version.partition("/")[0]
    return MachineParts(
        bootstrap=msgspec.to_builtins(etcd.spec.etcdadm_config_spec),
        infrastructure=Template(f"{reference.kind}.{group}", reference.name),
    )


def of_etcd_machine(etcd: EtcdadmCluster, infrastructure: ObjectMeta | None) -> MachineParts:
    """The parts of an external etcd machine; its configuration is assumed to be the present one of the etcd."""
    return msgspec.structs.replace(of_etcd(etcd), infrastructure=_cloned_from(infrastructure))


def of_machine_template(template: MachineTemplate) -> MachineParts:
    """The parts of a MachineSet's machines, or the desired ones of a MachineDeployment."""
    return MachineParts(
        version=template.spec.version,
        bootstrap=msgspec.to_builtins(template.spec.bootstrap),
        infrastructure=_template(template.spec.infrastructure_ref),
        failure_domain=template.spec.failure_domain,
        in_place=_in_place(template.metadata, template.spec),
        is_of_group=True,
    )


def bootstrap_for_comparison(spec: Tree) -> Tree:
    """A KubeadmConfig's spec without irrelevant fields: the machine that initialized the cluster equals those that
    joined.

    Not compared: how a machine discovers the cluster, its endpoint, and DNS, which Cluster API updates itself.
    """
    pruned: Tree = _pruned(_compared_parts(spec))
    return pruned


def _compared_parts(spec: Tree) -> Tree:
    """As `bootstrap_for_comparison`, with empty parts."""
    join = dict(spec.get("joinConfiguration") or _as_join(spec.get("initConfiguration") or {}))
    for name in ("discovery", "caCertPath", "controlPlane"):
        join.pop(name, None)
    cluster = dict(spec.get("clusterConfiguration") or {})
    for name in ("controlPlaneEndpoint", "dns"):
        cluster.pop(name, None)
    rest = {name: value for name, value in spec.items() if name != "initConfiguration"}
    rest["format"] = rest.get("format") or "cloud-config"
    return rest | {"joinConfiguration": join, "clusterConfiguration": cluster}


def differences(current: Any, desired: Any) -> Iterator[str]:
    """Paths of the fields in which two trees differ. Fields of a map that only one has are named one by one. A list
    that differs is named as a whole.
    """
    return (paths.render(path) for path, _, _ in paths.differences(current, desired, parts=_parts_of_map))


def _parts_of_map(value: Any) -> Mapping[Any, Any] | None:
    return {} if value is None else paths.parts_of_map(value)


def _cloned_from(infrastructure: ObjectMeta | None) -> Template | None:
    annotations = infrastructure.annotations if infrastructure else {}
    kind, name = annotations.get(CLONED_FROM_GROUP_KIND), annotations.get(CLONED_FROM_NAME)
    return Template(kind, name) if kind and name else None


def _reasons_to_replace(current: MachineParts, desired: MachineParts) -> Iterator[str]:
    if current.version != desired.version:
        yield "version"
    are_same = current.bootstrap == desired.bootstrap and current.is_completed == desired.is_completed
    if current.bootstrap is not None and desired.bootstrap is not None and not are_same:
        # Of the machine's version, both: what follows from another version is no reason besides it.
        before, after = (_bootstrap(parts, current.version) for parts in (current, desired))
        yield from (f"bootstrap.{name}" for name in sorted(_differences_of_bootstrap(before, after)))
    if (
        None not in (current.infrastructure, desired.infrastructure)
        and current.infrastructure != desired.infrastructure
    ):
        yield "infrastructure"
    if desired.failure_domain and current.failure_domain != desired.failure_domain:
        yield "failureDomain"


def _differences_of_bootstrap(current: Tree, desired: Tree) -> Sequence[str]:
    """The machine that initialized the cluster may match either the joining ones or its own desired configuration."""
    present, wanted = _compared_parts(current), _compared_parts(desired)
    if present == wanted:
        return []
    before = _pruned(present)
    fields = list(differences(before, _pruned(wanted)))
    has_initialized = (
        "joinConfiguration" not in current and "initConfiguration" in current and "initConfiguration" in desired
    )
    if not fields or not has_initialized:
        return fields
    desired_of_first = {name: value for name, value in desired.items() if name != "joinConfiguration"}
    return list(differences(before, bootstrap_for_comparison(desired_of_first)))


def _bootstrap(parts: MachineParts, version: str) -> Tree:
    spec = parts.bootstrap or {}
    return control_plane_bootstrap(spec, version) if parts.is_completed else spec


def _as_join(init: Tree) -> Tree:
    return {name: value for name, value in init.items() if name != "localAPIEndpoint"}


def _only_desired_keys(current: Mapping[str, Any], desired: Mapping[str, Any]) -> Tree:
    annotations = {
        kind: {name: value for name, value in current.get(kind, {}).items() if name in desired.get(kind, {})}
        for kind in ("labels", "annotations")
    }
    return {**current, **annotations}


def _template(reference: ContractReference) -> Template:
    return Template(f"{reference.kind}.{reference.api_group}", reference.name)


def _in_place(
    metadata: ObjectMeta | TemplateMeta | None, spec: MachineSpec | ControlPlaneMachineSpec
) -> dict[str, Any]:
    """The fields that Cluster API changes without replacing a machine."""
    fields: Tree = msgspec.to_builtins(spec)
    labels, annotations = (metadata.labels, metadata.annotations) if metadata else ({}, {})
    return {
        "labels": _without_own_keys(labels),
        "annotations": _without_own_keys(annotations),
        **{name: fields[name] for name in _IN_PLACE if name in fields},
    }


def _without_own_keys(annotations: Mapping[str, str]) -> dict[str, str]:
    """Labels or annotations without those that Cluster API sets."""
    return {
        name: value
        for name, value in annotations.items()
        if name != names.TEMPLATE_HASH and not name.partition("/")[0].endswith(_OWN_DOMAIN)
    }


def _pruned(value: Any) -> Any:
    """Without empty parts: absent and empty mean the same."""
    if isinstance(value, dict):
        pruned = {}
        for name, inner in value.items():
            part = _pruned(inner) if isinstance(inner, _CONTAINERS) else inner
            if part or isinstance(part, _NUMBERS):
                pruned[name] = part
        return pruned
    if isinstance(value, list):
        return [_pruned(inner) if isinstance(inner, _CONTAINERS) else inner for inner in value]
    return value
