"""The objects that a cluster on vSphere references: datacenter, machine configs, and credentials."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from espalier.api.core import SECRET
from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.parts.host_os import BOTTLEROCKET
from espalier.api.eksa.parts.workers import WorkerNodeGroupConfiguration
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.clusters.design.cluster_objects.linked_objects import of_kind
from espalier.clusters.design.cluster_objects.machine_groups import fields_with, kubernetes_versions
from espalier.clusters.design.provider import Dependency, RenderInput
from espalier.clusters.design.secrets.credentials import ALLOWED, IN_WORKLOAD_CLUSTERS, lacking
from espalier.kube.objects import Object
from espalier.providers.vsphere.kinds import Resolved, VSphereDatacenterConfig, VSphereMachineConfig
from espalier.providers.vsphere.server import server_of

CREDENTIALS = "vsphere-credentials"
"""The Secret in `eksa-system` with credentials for vCenters, as in EKS Anywhere."""

USER, PASSWORD = "username", "password"
CP_USER, CP_PASSWORD = "usernameCP", "passwordCP"

VARIABLES = {
    USER: "EKSA_VSPHERE_USERNAME",
    PASSWORD: "EKSA_VSPHERE_PASSWORD",
    CP_USER: "EKSA_VSPHERE_CP_USERNAME",
    CP_PASSWORD: "EKSA_VSPHERE_CP_PASSWORD",
}
"""By field of the Secret."""
_VARIABLES = tuple(VARIABLES.values())


class Login(NamedTuple):
    """A user of a vCenter."""

    user: bytes
    password: bytes

    def __repr__(self) -> str:
        return "Login"


def depend(_cluster: eksa.Cluster, children: Sequence[Object]) -> Iterator[Dependency]:
    """Dependencies on credentials, to be sent to the server of the datacenter."""
    for datacenter in of_kind(VSphereDatacenterConfig, children).values():
        field = f"VSphereDatacenterConfig {datacenter.metadata.name}: spec.server"
        server = server_of(datacenter.spec).permission
        yield Dependency(SECRET, CREDENTIALS, field, server, unusable, variables=_VARIABLES, fields=(USER, PASSWORD))


def unusable(data: Mapping[str, bytes], annotations: Mapping[str, str]) -> str:
    """The problems of credentials that are to create a cluster without giving its owner the administrator's account."""
    if lack := lacking(f"{SYSTEM_NAMESPACE}/{CREDENTIALS}", data, (USER, PASSWORD), "of the user that makes machines"):
        return lack
    own = _reader(data) is not None and data[CP_USER] != data[USER]
    if own or annotations.get(IN_WORKLOAD_CLUSTERS) == ALLOWED:
        return ""
    finding = "; found the user that creates machines" if data.get(CP_USER) == data[USER] else ""
    return (
        f"fields {CP_USER} and {CP_PASSWORD} of Secret {SYSTEM_NAMESPACE}/{CREDENTIALS}, of another, read-only user of "
        f"the vCenter{finding}: cloud controllers in workload clusters use them. To give these the user that creates "
        f"machines, set annotation {IN_WORKLOAD_CLUSTERS}: {ALLOWED} on the Secret"
    )


def administrator(render_input: RenderInput) -> Login:
    """The user that creates machines."""
    data = _credentials(render_input)
    return Login(data[USER], data[PASSWORD])


def cloud_controller(render_input: RenderInput) -> Login:
    """The read-only user for the workload cluster."""
    data = _credentials(render_input)
    return _reader(data) or administrator(render_input)


def _reader(data: Mapping[str, bytes]) -> Login | None:
    """The read-only user, if both of its fields have content."""
    reader = Login(data.get(CP_USER, b""), data.get(CP_PASSWORD, b""))
    return reader if all(part.strip() for part in reader) else None


def _credentials(render_input: RenderInput) -> Mapping[str, bytes]:
    return render_input.data[f"{SECRET.kind} {SYSTEM_NAMESPACE}/{CREDENTIALS}"]


def zone_name(cluster: str, datacenter: str, domain: str) -> str:
    """The name of the VSphereFailureDomain and the VSphereDeploymentZone of a failure domain."""
    return f"{cluster}-{datacenter}-{domain}"


def zone(cluster: str, group: WorkerNodeGroupConfiguration, children: Sequence[Object]) -> str:
    """The VSphereDeploymentZone of a worker node group; empty if it names no failure domain."""
    name = next(iter(of_kind(VSphereDatacenterConfig, children)), "")
    return zone_name(cluster, name, group.failure_domains[0]) if group.failure_domains and name else ""


def value(config: VSphereMachineConfig, field: str) -> str:
    """The name of a value from the vCenter, for messages."""
    return f"VSphereMachineConfig {config.metadata.name}: spec.{field}"


def for_version(kubernetes: str) -> str:
    """The field of a template that depends on the Kubernetes version."""
    return f"template (of Kubernetes {kubernetes})"


def resolve(spec: eksa.ClusterSpec, children: Sequence[Object]) -> Mapping[str, str]:
    """Inventory paths from the vCenter, for objects that a machine config names by a pattern, and for templates that it
    leaves out. They are kept until the spec changes.
    """
    values: dict[str, str] = {}
    for name, config in of_kind(VSphereMachineConfig, children).items():
        spec_of_config, status = config.spec, config.status
        resolved = status.resolved if status.observed_generation == config.metadata.generation else Resolved()
        paths = {
            "datastore": (spec_of_config.datastore, resolved.datastore),
            "folder": (spec_of_config.folder, resolved.folder),
            "resourcePool": (spec_of_config.resource_pool, resolved.resource_pool),
            "template": (spec_of_config.template, resolved.template),
        }
        values |= {value(config, field): path for field, (pattern, path) in paths.items() if is_pattern(pattern)}
        if resolved.clone_mode and not spec_of_config.clone_mode:
            values[value(config, "cloneMode")] = resolved.clone_mode
        if not spec_of_config.template:
            needed = kubernetes_versions(spec, name)
            values |= {value(config, for_version(version)): resolved.templates.get(version, "") for version in needed}
    return values


def is_pattern(name: str) -> bool:
    """True if a name or path of an object matches several."""
    return any(sign in name for sign in "*?[")


def with_bottlerocket(spec: eksa.ClusterSpec, children: Sequence[Object]) -> list[str]:
    """The fields of a Cluster's spec that ask for machines with Bottlerocket."""
    configs = of_kind(VSphereMachineConfig, children)
    return fields_with(BOTTLEROCKET, spec, {name: config.spec.os for name, config in configs.items()})
