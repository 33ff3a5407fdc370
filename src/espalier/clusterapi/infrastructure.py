"""What Cluster API reads of infrastructure objects, whatever their kind (its contract, v1beta2)."""

# ruff: noqa: RUF012  (msgspec copies empty defaults)

from __future__ import annotations

from typing import NamedTuple

import msgspec

from espalier.api.capi import docker
from espalier.api.capi.cluster import Endpoint, FailureDomain
from espalier.api.capi.machine import MachineAddress
from espalier.api.meta import Condition, ObjectMeta, Observed
from espalier.api.resource import Resource


class InfrastructureKinds(NamedTuple):
    """The kinds of one infrastructure provider. `provider_id` is a format of `cluster` and `name`."""

    cluster: Resource
    machine: Resource
    machine_template: Resource
    provider_id: str


DOCKER = InfrastructureKinds(
    docker.DockerCluster.resource,
    docker.DockerMachine.resource,
    docker.DockerMachineTemplate.resource,
    "docker:////{name}",
)


class Initialization(Observed, frozen=True):
    """Steps that happen once in the life of infrastructure."""

    provisioned: bool = False


class InfrastructureClusterSpec(Observed, frozen=True):
    """Of the spec of a cluster's infrastructure."""

    control_plane_endpoint: Endpoint | None = None
    failure_domains: list[FailureDomain] = []


class InfrastructureClusterStatus(Observed, frozen=True):
    """Of the status of a cluster's infrastructure."""

    initialization: Initialization = Initialization()
    failure_domains: list[FailureDomain] = []
    conditions: list[Condition] = []


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
    addresses: list[MachineAddress] = []
    failure_domain: str = ""
    conditions: list[Condition] = []


class InfrastructureMachine(Observed, frozen=True):
    """A machine's infrastructure."""

    metadata: ObjectMeta
    spec: InfrastructureMachineSpec = InfrastructureMachineSpec()
    status: InfrastructureMachineStatus = InfrastructureMachineStatus()
