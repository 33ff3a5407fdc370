"""The differences of Cluster API's infrastructure providers, as values."""

# ruff: noqa: RUF012  (msgspec copies empty defaults)

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import msgspec

from espalier.api.capi.cluster import Endpoint, FailureDomain
from espalier.api.capi.machine import MachineAddress
from espalier.api.meta import Condition, ObjectMeta, Observed
from espalier.api.resource import Resource
from espalier.kube.objects import Object

GROUP = "infrastructure.cluster.x-k8s.io"


@dataclass(frozen=True)
class Hosts:
    """Bare metal hosts: each is one machine at a time."""

    resource: Resource
    owner_name: str
    owner_namespace: str
    """Labels of a host in use: the infrastructure machine that uses it."""
    fits: Callable[[Object, Mapping[str, str]], bool]
    """True if an infrastructure machine may use a host with these labels. Pure."""


@dataclass(frozen=True)
class Infrastructure:
    """The kinds of one infrastructure provider. A management cluster may lack them, and then has no clusters of it."""

    cluster: Resource
    machine: Resource
    machine_template: Resource
    provider_id: str
    """Format of `spec.providerID`, with `cluster` and `name`."""
    image_fields: frozenset[str] = frozenset()
    """Fields of a machine template that name the image of a machine, which contains a Kubernetes version."""
    contract: Literal["v1beta1", "v1beta2"] = "v1beta2"
    """The Cluster API contract that the kinds implement, which determines how their status reports provisioning."""
    provisioning_fields: frozenset[str] = frozenset()
    """Fields of a machine template that only matter at a machine's creation: a running machine does not differ by them.
    """
    hosts: Hosts | None = None
    """The hosts of providers that do not create machines on demand. For simulations."""


class Infrastructures:
    """The infrastructure providers that a process supports, by the kinds of their objects."""

    def __init__(self, all_: Iterable[Infrastructure]) -> None:
        self.all = tuple(dict.fromkeys(all_))
        self._of_machine: Mapping[str, Infrastructure] = {
            infrastructure.machine.kind: infrastructure for infrastructure in self.all
        }
        self._of_template: Mapping[str, Infrastructure] = {
            infrastructure.machine_template.kind: infrastructure for infrastructure in self.all
        }

    def is_optional(self, resource: Resource) -> bool:
        """True if a kind may be absent, as those of every provider."""
        return any(
            resource in (infrastructure.cluster, infrastructure.machine, infrastructure.machine_template)
            for infrastructure in self.all
        )

    def of_machine(self, kind: str) -> Infrastructure | None:
        """The provider of a machine kind."""
        return self._of_machine.get(kind)

    def of_template(self, kind: str) -> Infrastructure | None:
        """The provider of a machine template kind."""
        return self._of_template.get(kind)


def is_cluster(resource: Resource) -> bool:
    """True if a kind is an infrastructure cluster's. By Cluster API's contract, its name ends with `Cluster`."""
    return resource.group == GROUP and resource.kind.endswith("Cluster")


def is_machine_template(resource: Resource) -> bool:
    """True if a kind is an infrastructure provider's machine template."""
    return resource.group == GROUP and resource.kind.endswith("MachineTemplate")


# What Cluster API reads of infrastructure objects, whatever their kind (its contracts v1beta1 and v1beta2).


class Initialization(Observed, frozen=True):
    """Steps that happen once per infrastructure object."""

    provisioned: bool = False


class InfrastructureClusterSpec(Observed, frozen=True):
    """Fields of an infrastructure cluster's spec."""

    control_plane_endpoint: Endpoint | None = None
    failure_domains: list[FailureDomain] = []


class DomainStatus(Observed, frozen=True):
    """A failure domain by contract v1beta1, where its name is a key."""

    control_plane: bool | None = None
    attributes: dict[str, str] = {}


class InfrastructureClusterStatus(Observed, frozen=True):
    """Fields of an infrastructure cluster's status."""

    initialization: Initialization = Initialization()
    ready: bool = False
    """The same in contract v1beta1."""
    failure_domains: list[FailureDomain] | dict[str, DomainStatus] = []
    conditions: list[Condition] = []

    @property
    def provisioned(self) -> bool:
        """True if the infrastructure is provisioned, by either contract."""
        return self.initialization.provisioned or self.ready

    @property
    def domains(self) -> list[FailureDomain]:
        """The failure domains in the form of contract v1beta2."""
        domains = self.failure_domains
        if isinstance(domains, list):
            return domains
        return [
            FailureDomain(name, domain.control_plane, domain.attributes) for name, domain in sorted(domains.items())
        ]

    def of(self, contract: str) -> InfrastructureClusterStatus:
        """The same status in the form of a contract."""
        if contract != "v1beta1":
            return self
        domains = {domain.name: DomainStatus(domain.control_plane, domain.attributes) for domain in self.domains}
        return InfrastructureClusterStatus(
            ready=self.provisioned, failure_domains=domains, conditions=_undated(self.conditions)
        )


def _undated(conditions: list[Condition]) -> list[Condition]:
    """In contract v1beta1, conditions have no observed generation."""
    return [msgspec.structs.replace(condition, observed_generation=0) for condition in conditions]


class InfrastructureCluster(Observed, frozen=True):
    """An infrastructure cluster."""

    metadata: ObjectMeta
    spec: InfrastructureClusterSpec = InfrastructureClusterSpec()
    status: InfrastructureClusterStatus = InfrastructureClusterStatus()


class InfrastructureMachineSpec(Observed, frozen=True):
    """Fields of an infrastructure machine's spec."""

    provider_id: str = msgspec.field(name="providerID", default="")
    failure_domain: str = ""


class InfrastructureMachineStatus(Observed, frozen=True):
    """Fields of an infrastructure machine's status."""

    initialization: Initialization = Initialization()
    ready: bool = False
    """The same in contract v1beta1."""
    addresses: list[MachineAddress] = []
    failure_domain: str = ""
    conditions: list[Condition] = []

    @property
    def provisioned(self) -> bool:
        """True if the infrastructure is provisioned, by either contract."""
        return self.initialization.provisioned or self.ready

    def of(self, contract: str) -> InfrastructureMachineStatus:
        """The same status in the form of a contract."""
        if contract != "v1beta1":
            return self
        return InfrastructureMachineStatus(
            ready=self.provisioned, addresses=self.addresses, conditions=_undated(self.conditions)
        )


class InfrastructureMachine(Observed, frozen=True):
    """An infrastructure machine."""

    metadata: ObjectMeta
    spec: InfrastructureMachineSpec = InfrastructureMachineSpec()
    status: InfrastructureMachineStatus = InfrastructureMachineStatus()
