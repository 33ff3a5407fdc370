"""`core.gardener.cloud/v1beta1 Shoot`: a cluster whose control plane runs in a seed.

Typed as far as we write or read it; the rest survives because we write by server-side apply.
"""

# ruff: noqa: RUF012  (msgspec copies empty defaults)

from typing import Annotated

import msgspec
from msgspec import Meta

from espalier.api.core import Taint
from espalier.api.definitions.reference import ConditionProse
from espalier.api.gardener.extensions.worker import MachineImage, Volume
from espalier.api.gardener.vocabulary import reasons
from espalier.api.gardener.vocabulary.operations import (
    Condition,
    LastError,
    LastOperation,
    NamedReference,
    RawExtension,
    Time,
)
from espalier.api.kinds import AGE, ATOMIC, INT_OR_STRING, Column, KubeObject, kind, listing
from espalier.api.label_selectors import LabelSelector
from espalier.api.meta import ABSENT, Observed, Part
from espalier.api.resource import Resource

GROUP = "core.gardener.cloud"
VERSION = "v1beta1"

API_SERVER_AVAILABLE: Annotated[
    str,
    ConditionProse(
        (reasons.SHOOT,), "True: the Deployment of the API server in the seed is available, or the shoot hibernates."
    ),
] = "APIServerAvailable"
CONTROL_PLANE_HEALTHY: Annotated[
    str,
    ConditionProse(
        (reasons.SHOOT,),
        "True: etcd is ready and all Deployments of the control plane are available, or the shoot hibernates; and "
        "nothing of the shoot in its seed is being deleted.",
    ),
] = "ControlPlaneHealthy"
EVERY_NODE_READY: Annotated[
    str,
    ConditionProse(
        (reasons.SHOOT,),
        "True: all nodes are ready, and there are at least as many as the minimum of all workers. Asked of "
        "the shoot's API server every minute.",
    ),
] = "EveryNodeReady"
SYSTEM_COMPONENTS_HEALTHY: Annotated[
    str,
    ConditionProse(
        (reasons.SHOOT,),
        "True: the Deployments and DaemonSets in the shoot's `kube-system` are available. Asked every minute.",
    ),
] = "SystemComponentsHealthy"
READY_FOR_DISASTER: Annotated[
    str,
    ConditionProse(
        (reasons.SHOOT,),
        "True: if the seed were lost now, the shoot could be restored elsewhere, losing no more than a delta "
        "period. [migration.md](../../migration.md#ready-for-disaster) says how that is found out.",
    ),
] = "ReadyForDisaster"
READY_FOR_MIGRATION: Annotated[
    str,
    ConditionProse(
        (reasons.SHOOT,),
        "Constraint of a Shoot that is to move. True: the destination is ready, and the source may stop. "
        "Absent otherwise.",
    ),
] = "ReadyForMigration"

REPORTED_BY_GARDENLET = (
    API_SERVER_AVAILABLE,
    CONTROL_PLANE_HEALTHY,
    EVERY_NODE_READY,
    SYSTEM_COMPONENTS_HEALTHY,
    READY_FOR_DISASTER,
)
"""Conditions of a Shoot that only the gardenlet of its seed reports: Unknown without it."""


class WorkerMachine(Part):
    """Machine type and image of a worker pool."""

    type: str
    image: MachineImage | None = None
    architecture: str = ""


class Worker(Part):
    """A worker pool."""

    name: str
    machine: WorkerMachine
    minimum: Annotated[int, Meta(ge=0)]
    maximum: Annotated[int, Meta(ge=0)]
    max_surge: Annotated[int | str | None, Meta(extra_json_schema=INT_OR_STRING)] = None
    max_unavailable: Annotated[int | str | None, Meta(extra_json_schema=INT_OR_STRING)] = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    taints: Annotated[list[Taint], Meta(extra_json_schema=ATOMIC)] = []
    zones: Annotated[list[str], Meta(extra_json_schema=ATOMIC)] = []
    volume: Volume | None = None
    provider_config: RawExtension = ABSENT


class Provider(Part):
    """Type of the infrastructure, its settings and the worker pools."""

    type: str
    infrastructure_config: RawExtension = ABSENT
    control_plane_config: RawExtension = ABSENT
    workers: Annotated[list[Worker], Meta(extra_json_schema=listing("name"))] = []


class Kubernetes(Part):
    """Kubernetes of the shoot."""

    version: str = ""


class Networking(Part):
    """Type and address ranges of the shoot's network."""

    type: str = ""
    pods: str = ""
    services: str = ""
    nodes: str = ""
    ip_families: Annotated[list[str], Meta(extra_json_schema=ATOMIC)] = []
    provider_config: RawExtension = ABSENT


class DNSProvider(Part):
    """A provider of the shoot's domain."""

    type: str = ""
    secret_name: str = ""
    primary: bool | None = None


class DNS(Part):
    """The shoot's domain."""

    domain: str = ""
    providers: Annotated[list[DNSProvider], Meta(extra_json_schema=ATOMIC)] = []


class Hibernation(Part):
    """Hibernation: the control plane is scaled to zero and the machines are gone."""

    enabled: bool | None = None


class FailureTolerance(Part):
    """The failure that the control plane survives: the failure of a node, or of a zone."""

    type: str


class HighAvailability(Part):
    """High availability of the control plane."""

    failure_tolerance: FailureTolerance


class ControlPlane(Part):
    """Settings of the control plane."""

    high_availability: HighAvailability | None = None


class Toleration(Part):
    """A taint of seeds that the shoot tolerates; without a value, whatever value it has."""

    key: str
    value: str | None = None


class Extension(Part):
    """An extension that the shoot wants, by its type."""

    type: str
    provider_config: RawExtension = ABSENT
    disabled: bool | None = None


class SeedSelector(LabelSelector):
    """Seeds that a shoot, or the shoots of a profile, may have."""

    provider_types: Annotated[list[str], Meta(extra_json_schema=ATOMIC)] = []


class CloudProfileReference(Part):
    """The CloudProfile of a shoot."""

    name: str
    kind: str = ""


class ShootSpec(Part):
    """Desired state of a shoot."""

    provider: Provider
    region: str = ""
    cloud_profile: CloudProfileReference | None = None
    cloud_profile_name: Annotated[str, Meta(description="The older form of cloudProfile.")] = ""
    kubernetes: Kubernetes = msgspec.field(default_factory=Kubernetes)
    networking: Networking | None = None
    seed_name: Annotated[
        str | None,
        Meta(description="Seed of the control plane. To move the shoot, name another seed."),
    ] = None
    seed_selector: SeedSelector | None = None
    secret_binding_name: str = ""
    credentials_binding_name: str = ""
    purpose: str = ""
    dns: DNS | None = None
    hibernation: Hibernation | None = None
    control_plane: ControlPlane | None = None
    extensions: Annotated[list[Extension], Meta(extra_json_schema=listing("type"))] = []
    tolerations: Annotated[list[Toleration], Meta(extra_json_schema=ATOMIC)] = []
    resources: Annotated[list[NamedReference], Meta(extra_json_schema=listing("name"))] = []

    @property
    def profile(self) -> str:
        """Name of the CloudProfile; empty if the shoot has none."""
        return self.cloud_profile.name if self.cloud_profile is not None else self.cloud_profile_name


class Gardener(Observed, frozen=True):
    """The gardenlet that acted last."""

    id: str = ""
    name: str = ""
    version: str = ""


class ShootStatus(Observed, frozen=True):
    """Observed state of a shoot."""

    conditions: Annotated[list[Condition], Meta(extra_json_schema=listing("type"))] = []
    constraints: Annotated[list[Condition], Meta(extra_json_schema=listing("type"))] = []
    gardener: Gardener | None = None
    hibernated: Annotated[bool, Meta(description="True if the control plane is scaled to zero.")] = False
    last_operation: LastOperation | None = None
    last_errors: Annotated[list[LastError], Meta(extra_json_schema=ATOMIC)] = []
    observed_generation: int = 0
    retry_cycle_start_time: Time | None = None
    seed_name: Annotated[str | None, Meta(description="Seed that has the control plane.")] = None
    technical_id: Annotated[str, Meta(description="Name of the shoot's namespace in the seed.")] = msgspec.field(
        default="", name="technicalID"
    )
    uid: Annotated[str, Meta(description="Identity of the shoot, which survives its migrations.")] = ""


@kind(
    Resource(GROUP, VERSION, "shoots", "Shoot"),
    columns=(
        Column("Provider", ".spec.provider.type", "string", "Type of the infrastructure"),
        Column("Region", ".spec.region", "string", "Region of the provider"),
        Column("K8S Version", ".spec.kubernetes.version", "string", "Kubernetes version"),
        Column("Hibernated", ".status.hibernated", "boolean", "True if the control plane is scaled to zero"),
        Column("Seed", ".status.seedName", "string", "Seed that has the control plane"),
        Column("Last Operation", ".status.lastOperation.type", "string", "Current or last operation"),
        Column("Progress", ".status.lastOperation.progress", "integer", "Progress in percent"),
        Column("Status", ".status.lastOperation.state", "string", "State of the operation"),
        Column("Wanted Seed", ".spec.seedName", "string", "Desired seed of the control plane", 1),
        Column(
            "Description", ".status.lastOperation.description", "string", "What the operation does, or waits for", 1
        ),
        Column("Technical ID", ".status.technicalID", "string", "Namespace in the seed", 1),
        AGE,
    ),
    status=True,
    partly=True,
)
class Shoot(KubeObject, kw_only=True):
    """A cluster whose control plane runs in a seed."""

    spec: ShootSpec
    status: ShootStatus = ShootStatus()
