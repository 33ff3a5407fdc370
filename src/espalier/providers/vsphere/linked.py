"""What a cluster on vSphere links: its datacenter, machine configs, and credentials."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from espalier.api.core import SECRET
from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.fields import Ref
from espalier.api.eksa.group import GROUP, SYSTEM_NAMESPACE
from espalier.api.eksa.workers import WorkerNodeGroupConfiguration
from espalier.clusters.provider import Dependency
from espalier.clusters.render_input import Design
from espalier.kube.objects import Object
from espalier.providers.vsphere.checks.questions import server_of
from espalier.providers.vsphere.kinds import Resolved, VSphereDatacenterConfig, VSphereMachineConfig

CREDENTIALS = "vsphere-credentials"
"""The Secret in `eksa-system` with credentials for vCenters, as in EKS Anywhere."""

USER, PASSWORD = "username", "password"
CP_USER, CP_PASSWORD = "usernameCP", "passwordCP"

IN_WORKLOAD_CLUSTERS = f"{GROUP}/credentials-in-workload-clusters"
ALLOWED = "allowed"
"""Annotation of that Secret: the user that makes machines may be the one of cloud controllers as well."""


class Login(NamedTuple):
    """A user of a vCenter."""

    user: bytes
    password: bytes

    def __repr__(self) -> str:
        return "Login"


def datacenter(design: Design) -> VSphereDatacenterConfig:
    """The datacenter of a cluster."""
    name = design.spec.datacenter_ref.name if design.spec.datacenter_ref else ""
    return datacenters(design.children)[name]


def machine_config(design: Design, reference: Ref | None) -> VSphereMachineConfig:
    """The machine config that a reference names."""
    return machine_configs(design.children)[reference.name if reference else ""]


def datacenters(children: Sequence[Object]) -> dict[str, VSphereDatacenterConfig]:
    """The datacenter among linked objects, by its name."""
    kind = VSphereDatacenterConfig.resource.kind
    return {one.name: one.decode(VSphereDatacenterConfig) for one in children if one.kind == kind}


def machine_configs(children: Sequence[Object]) -> dict[str, VSphereMachineConfig]:
    """The machine configs among linked objects, by their names."""
    kind = VSphereMachineConfig.resource.kind
    return {one.name: one.decode(VSphereMachineConfig) for one in children if one.kind == kind}


def depend(_cluster: eksa.Cluster, children: Sequence[Object]) -> Iterator[Dependency]:
    """The credentials, which go to the server of the datacenter."""
    for one in datacenters(children).values():
        field = f"VSphereDatacenterConfig {one.metadata.name}: spec.server"
        yield Dependency(SECRET, CREDENTIALS, field, server_of(one.spec).permission, unusable)


def unusable(data: Mapping[str, bytes], annotations: Mapping[str, str]) -> str:
    """Why credentials are not enough: a cluster would be made by nobody, or its owner would get to be administrator."""
    if not (data.get(USER) and data.get(PASSWORD)):
        return f"fields {USER} and {PASSWORD} of Secret {SYSTEM_NAMESPACE}/{CREDENTIALS}"
    own = data.get(CP_USER) and data.get(CP_PASSWORD) and data[CP_USER] != data[USER]
    if own or annotations.get(IN_WORKLOAD_CLUSTERS) == ALLOWED:
        return ""
    return (
        f"fields {CP_USER} and {CP_PASSWORD} of Secret {SYSTEM_NAMESPACE}/{CREDENTIALS}, of a user that may only read "
        "the vCenter: cloud controllers have them in workload clusters. To have the user that makes machines there as "
        f"well, set annotation {IN_WORKLOAD_CLUSTERS}: {ALLOWED} on the Secret"
    )


def administrator(design: Design) -> Login:
    """Who makes machines."""
    data = _credentials(design)
    return Login(data[USER], data[PASSWORD])


def cloud_controller(design: Design) -> Login:
    """Who reads the vCenter from within the workload cluster."""
    data = _credentials(design)
    own = Login(data.get(CP_USER, b""), data.get(CP_PASSWORD, b""))
    return own if all(own) else administrator(design)


def _credentials(design: Design) -> Mapping[str, bytes]:
    return design.data[f"{SECRET.kind} {SYSTEM_NAMESPACE}/{CREDENTIALS}"]


def of_group(design: Design, group: WorkerNodeGroupConfiguration | None) -> VSphereMachineConfig:
    """The machine config of a worker node group; of the control plane for None."""
    reference = group.machine_group_ref if group is not None else design.control_plane.machine_group_ref
    return machine_config(design, reference)


def zone_name(cluster: str, datacenter: str, domain: str) -> str:
    """Of the VSphereFailureDomain and the VSphereDeploymentZone of a failure domain."""
    return f"{cluster}-{datacenter}-{domain}"


def zone(cluster: str, group: WorkerNodeGroupConfiguration, children: Sequence[Object]) -> str:
    """The VSphereDeploymentZone of a worker node group; empty if it names no failure domain."""
    name = next(iter(datacenters(children)), "")
    return zone_name(cluster, name, group.failure_domains[0]) if group.failure_domains and name else ""


def value(config: VSphereMachineConfig, field: str) -> str:
    """The name of a value that the vCenter knows, for messages."""
    return f"VSphereMachineConfig {config.metadata.name}: spec.{field}"


def for_version(kubernetes: str) -> str:
    """The field of a template that depends on the Kubernetes version."""
    return f"template (of Kubernetes {kubernetes})"


def resolve(spec: eksa.ClusterSpec, children: Sequence[Object]) -> Mapping[str, str]:
    """Inventory paths that the vCenter knows: of what a machine config names by a pattern, and of templates that it
    leaves out. They stay as they were found until the spec changes.
    """
    found: dict[str, str] = {}
    for name, config in machine_configs(children).items():
        asked, seen = config.spec, config.status
        resolved = seen.resolved if seen.observed_generation == config.metadata.generation else Resolved()
        paths = {
            "datastore": (asked.datastore, resolved.datastore),
            "folder": (asked.folder, resolved.folder),
            "resourcePool": (asked.resource_pool, resolved.resource_pool),
            "template": (asked.template, resolved.template),
        }
        found |= {value(config, field): path for field, (given, path) in paths.items() if _is_pattern(given)}
        if not asked.template:
            needed = versions(spec, name)
            found |= {value(config, for_version(one)): resolved.templates.get(one, "") for one in needed}
    return found


def _is_pattern(given: str) -> bool:
    return any(sign in given for sign in "*?[")


def versions(spec: eksa.ClusterSpec, config: str) -> list[str]:
    """The Kubernetes versions that machines with a machine config run."""
    groups = {
        f"spec.workerNodeGroupConfigurations[{n}]": g for n, g in enumerate(spec.worker_node_group_configurations)
    }
    named = [place for place, reference, _ in machines(spec) if reference is not None and reference.name == config]
    of = ((groups[one].kubernetes_version if one in groups else "") or spec.kubernetes_version for one in named)
    return list(dict.fromkeys(of))


def machines(spec: eksa.ClusterSpec) -> Iterator[tuple[str, Ref | None, str]]:
    """All machines of a cluster: the field that asks for them, their machine config, and what they are there for."""
    if (control_plane := spec.control_plane_configuration) is not None:
        yield "spec.controlPlaneConfiguration", control_plane.machine_group_ref, "control plane"
    if (etcd := spec.external_etcd_configuration) is not None:
        yield "spec.externalEtcdConfiguration", etcd.machine_group_ref, "etcd"
    for index, group in enumerate(spec.worker_node_group_configurations):
        yield f"spec.workerNodeGroupConfigurations[{index}]", group.machine_group_ref, "workers"
