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
    """Objects that stand for bare metal: each is one machine at a time."""

    resource: Resource
    owner_name: str
    owner_namespace: str
    """Labels of a host that is taken: by which infrastructure machine."""
    fits: Callable[[Object, Mapping[str, str]], bool]
    """True if an infrastructure machine may be made on a host with these labels. Pure."""


@dataclass(frozen=True)
class Infrastructure:
    """The kinds of one infrastructure provider."""

    cluster: Resource
    machine: Resource
    machine_template: Resource
    provider_id: str
    """Format of `spec.providerID`, with `cluster` and `name`."""
    image_fields: frozenset[str] = frozenset()
    """Fields of a machine template that say which image a machine starts from: it has a Kubernetes version in it."""
    contract: Literal["v1beta1", "v1beta2"] = "v1beta2"
    """Cluster API's contract that the kinds keep: how their status says that something is provisioned."""
    optional: bool = False
    """True if a management cluster may be without these kinds: it has no clusters of the provider then."""
    provisioning_fields: frozenset[str] = frozenset()
    """Fields of a machine template that only matter while a machine is made: they do not differ for one that runs."""
    hosts: Hosts | None = None
    """Where machines are not made on demand: what they are made on. For simulations."""


class Infrastructures:
    """Those that a process works with, by the kinds of their objects."""

    def __init__(self, all_: Iterable[Infrastructure]) -> None:
        self.all = tuple(dict.fromkeys(all_))
        self._of_machine: Mapping[str, Infrastructure] = {one.machine.kind: one for one in self.all}
        self._of_template: Mapping[str, Infrastructure] = {one.machine_template.kind: one for one in self.all}

    def is_optional(self, resource: Resource) -> bool:
        """True if a kind may not be there."""
        of = (one for one in self.all if one.optional)
        return any(resource in (one.cluster, one.machine, one.machine_template) for one in of)

    def of_machine(self, kind: str) -> Infrastructure | None:
        """The provider of a kind of machines."""
        return self._of_machine.get(kind)

    def of_template(self, kind: str) -> Infrastructure | None:
        """The provider of a kind of machine templates."""
        return self._of_template.get(kind)


def is_cluster(resource: Resource) -> bool:
    """True if a kind is an infrastructure provider's for what all machines of a cluster share.

    Among the kinds that are written for clusters: by Cluster API's contract, its name ends with `Cluster`.
    """
    return resource.group == GROUP and resource.kind.endswith("Cluster")


def is_machine_template(resource: Resource) -> bool:
    """True if a kind is an infrastructure provider's for templates of machines."""
    return resource.group == GROUP and resource.kind.endswith("MachineTemplate")


# What Cluster API reads of infrastructure objects, whatever their kind (its contracts v1beta1 and v1beta2).


class Initialization(Observed, frozen=True):
    """Steps that happen once in the life of infrastructure."""

    provisioned: bool = False


class InfrastructureClusterSpec(Observed, frozen=True):
    """Of the spec of a cluster's infrastructure."""

    control_plane_endpoint: Endpoint | None = None
    failure_domains: list[FailureDomain] = []


class DomainStatus(Observed, frozen=True):
    """A failure domain by contract v1beta1, where its name is a key."""

    control_plane: bool | None = None
    attributes: dict[str, str] = {}


class InfrastructureClusterStatus(Observed, frozen=True):
    """Of the status of a cluster's infrastructure."""

    initialization: Initialization = Initialization()
    ready: bool = False
    """The same by contract v1beta1."""
    failure_domains: list[FailureDomain] | dict[str, DomainStatus] = []
    conditions: list[Condition] = []

    @property
    def provisioned(self) -> bool:
        """True if it is there, by either contract."""
        return self.initialization.provisioned or self.ready

    @property
    def domains(self) -> list[FailureDomain]:
        """The failure domains, as contract v1beta2 has them."""
        found = self.failure_domains
        if isinstance(found, list):
            return found
        return [FailureDomain(name, one.control_plane, one.attributes) for name, one in sorted(found.items())]

    def of(self, contract: str) -> InfrastructureClusterStatus:
        """The same as objects of a contract say it."""
        if contract != "v1beta1":
            return self
        domains = {one.name: DomainStatus(one.control_plane, one.attributes) for one in self.domains}
        return InfrastructureClusterStatus(
            ready=self.provisioned, failure_domains=domains, conditions=_undated(self.conditions)
        )


def _undated(conditions: list[Condition]) -> list[Condition]:
    """By contract v1beta1 conditions say nothing of generations."""
    return [msgspec.structs.replace(one, observed_generation=0) for one in conditions]


class InfrastructureCluster(Observed, frozen=True):
    """A cluster's infrastructure."""

    metadata: ObjectMeta
    spec: InfrastructureClusterSpec = InfrastructureClusterSpec()
    status: InfrastructureClusterStatus = InfrastructureClusterStatus()


class InfrastructureMachineSpec(Observed, frozen=True):
    """Of the spec of a machine's infrastructure."""

    provider_id: str = msgspec.field(name="providerID", default="")
    failure_domain: str = ""


class InfrastructureMachineStatus(Observed, frozen=True):
    """Of the status of a machine's infrastructure."""

    initialization: Initialization = Initialization()
    ready: bool = False
    """The same by contract v1beta1."""
    addresses: list[MachineAddress] = []
    failure_domain: str = ""
    conditions: list[Condition] = []

    @property
    def provisioned(self) -> bool:
        """True if it is there, by either contract."""
        return self.initialization.provisioned or self.ready

    def of(self, contract: str) -> InfrastructureMachineStatus:
        """The same as objects of a contract say it."""
        if contract != "v1beta1":
            return self
        return InfrastructureMachineStatus(
            ready=self.provisioned, addresses=self.addresses, conditions=_undated(self.conditions)
        )


class InfrastructureMachine(Observed, frozen=True):
    """A machine's infrastructure."""

    metadata: ObjectMeta
    spec: InfrastructureMachineSpec = InfrastructureMachineSpec()
    status: InfrastructureMachineStatus = InfrastructureMachineStatus()
