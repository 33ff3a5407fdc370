"""The objects that a cluster on Nutanix references: datacenter, machine configs, and credentials."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from espalier.api.core import SECRET
from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.parts.workers import WorkerNodeGroupConfiguration
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.trees import json_trees
from espalier.clusters.design.cluster_objects import linked_objects
from espalier.clusters.design.provider import Dependency, RenderInput
from espalier.clusters.design.render_input import group_name
from espalier.clusters.design.secrets.credentials import ALLOWED, IN_WORKLOAD_CLUSTERS, lacking
from espalier.clusters.report.checks.questions import Server
from espalier.kube.objects import Object
from espalier.providers.nutanix.kinds import (
    FailureDomain,
    NutanixDatacenterConfig,
    NutanixDatacenterConfigSpec,
)

CREDENTIALS = "nutanix-credentials"
"""The Secret in `eksa-system` with an account of Prism Central, unless a datacenter names another, as in EKS Anywhere.
"""

OF_MACHINES, OF_CLOUD_CONTROLLER = "credentials", "credentialsCP"
"""Fields of the Secret: the account that creates machines, and the read-only account."""

BASIC = "basic_auth"


def other_version(image: str, version: str) -> str:
    """The problem of an image whose name does not contain the Kubernetes version of its machines."""
    return f"found {image}, whose name lacks Kubernetes {version}; use an image of that version, like ubuntu-{version}"


class Account(msgspec.Struct, frozen=True):
    """An account of Prism Central. Its repr has no password."""

    username: str
    password: str

    def __repr__(self) -> str:
        return "Account"


class _Data(msgspec.Struct, rename="camel"):
    prism_central: Account
    prism_elements: None = None


class _Entry(msgspec.Struct):
    type: str
    data: _Data


def read_account(content: bytes) -> Account | None:
    """The account in a field of the Secret, which is JSON; None if it is missing, invalid or incomplete."""
    try:
        entries = json_trees.decode(content, type=list[_Entry])
    except msgspec.MsgspecError:
        return None
    accounts = (entry.data.prism_central for entry in entries if entry.type == BASIC)
    account = next(accounts, None)
    return account if account is not None and account.username and account.password else None


def write_account(username: str, password: str) -> str:
    """The content of a field of the Secret with an account."""
    entry = _Entry(BASIC, _Data(Account(username, password)))
    return msgspec.json.encode([entry]).decode()


def host_of(spec: NutanixDatacenterConfigSpec) -> str:
    """Host and port of a Prism Central."""
    host = spec.endpoint if spec.endpoint.startswith("[") or ":" not in spec.endpoint else f"[{spec.endpoint}]"
    return f"{host.lower()}:{spec.port}"


def permission(spec: NutanixDatacenterConfigSpec) -> str:
    """The name by which a Secret must permit sending its credentials to a Prism Central."""
    return Server(host_of(spec), spec.insecure).permission


def datacenter(render_input: RenderInput) -> NutanixDatacenterConfigSpec:
    """The datacenter of a cluster."""
    return linked_objects.datacenter(NutanixDatacenterConfig, render_input).spec


def domain(render_input: RenderInput, group: WorkerNodeGroupConfiguration | None) -> FailureDomain | None:
    """The failure domain of a worker node group; None for the control plane, which Cluster API spreads."""
    name = render_input.domains.get(group_name(group)) if group is not None else None
    return next(
        (failure_domain for failure_domain in datacenter(render_input).failure_domains if failure_domain.name == name),
        None,
    )


def domains(_spec: eksa.ClusterSpec, children: Sequence[Object]) -> Mapping[str, Sequence[str]]:
    """The failure domains that name a worker node group, by its name."""
    domains_by_group: dict[str, list[str]] = {}
    for config in linked_objects.of_kind(NutanixDatacenterConfig, children).values():
        for domain in config.spec.failure_domains:
            for group in dict.fromkeys(domain.worker_machine_groups):
                domains_by_group.setdefault(group, []).append(domain.name)
    return domains_by_group


def credentials_of(spec: NutanixDatacenterConfigSpec) -> str:
    """The Secret with the account of a Prism Central."""
    return spec.credential_ref.name if spec.credential_ref is not None else CREDENTIALS


VARIABLES = {
    OF_MACHINES: ("EKSA_NUTANIX_USERNAME", "EKSA_NUTANIX_PASSWORD"),
    OF_CLOUD_CONTROLLER: ("EKSA_NUTANIX_CP_USERNAME", "EKSA_NUTANIX_CP_PASSWORD"),
}
"""User and password, by field of the Secret."""
_VARIABLES = tuple(variable for pair in VARIABLES.values() for variable in pair)


def depend(_cluster: eksa.Cluster, children: Sequence[Object]) -> Iterator[Dependency]:
    """Dependencies on credentials, to be sent to the Prism Central of the datacenter."""
    for config in linked_objects.of_kind(NutanixDatacenterConfig, children).values():
        name, field = credentials_of(config.spec), f"NutanixDatacenterConfig {config.metadata.name}: spec.credentialRef"
        yield Dependency(
            SECRET, name, field, permission(config.spec), _Lacks(name), variables=_VARIABLES, fields=(OF_MACHINES,)
        )


@dataclass(frozen=True)
class _Lacks:
    """The fields that a Secret lacks to create a cluster without giving its owner the administrator's account."""

    name: str

    def __call__(self, data: Mapping[str, bytes], annotations: Mapping[str, str]) -> str:
        secret = f"of Secret {SYSTEM_NAMESPACE}/{self.name}"
        example = f"with the account that creates machines, like {write_account('USER', 'PASSWORD')}"
        if lack := lacking(f"{SYSTEM_NAMESPACE}/{self.name}", data, (OF_MACHINES,), example):
            return lack
        maker = read_account(data[OF_MACHINES])
        if maker is None:
            return f"field {OF_MACHINES} {secret}, {example}; found something else: correct the field"
        reader = read_account(data.get(OF_CLOUD_CONTROLLER, b""))
        is_same = reader is not None and reader.username == maker.username
        if (reader is not None and not is_same) or annotations.get(IN_WORKLOAD_CLUSTERS) == ALLOWED:
            return ""
        finding = "; found the user that creates machines" if is_same else ""
        return (
            f"field {OF_CLOUD_CONTROLLER} {secret}, of another, read-only user of Prism Central{finding}: cloud "
            "controllers in workload clusters use it. To give these the user that creates machines, set "
            f"annotation {IN_WORKLOAD_CLUSTERS}: {ALLOWED} on the Secret"
        )


def of_machines(render_input: RenderInput) -> bytes:
    """The account that creates machines, as stored in the Secret."""
    return _credentials(render_input)[OF_MACHINES]


def of_cloud_controller(render_input: RenderInput) -> bytes:
    """The read-only account for the workload cluster, as stored in the Secret."""
    data = _credentials(render_input)
    own = data.get(OF_CLOUD_CONTROLLER, b"")
    return own if read_account(own) is not None else data[OF_MACHINES]


def _credentials(render_input: RenderInput) -> Mapping[str, bytes]:
    return render_input.data[f"{SECRET.kind} {SYSTEM_NAMESPACE}/{credentials_of(datacenter(render_input))}"]
