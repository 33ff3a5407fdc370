"""`core.gardener.cloud/v1beta1 Seed`: a cluster in which control planes of shoots run."""

# ruff: noqa: RUF012  (msgspec copies empty defaults)

from typing import Annotated

from msgspec import Meta

from espalier.api.definitions.reference import ConditionProse
from espalier.api.gardener.garden.shoot import GROUP, VERSION, Gardener
from espalier.api.gardener.vocabulary import reasons
from espalier.api.gardener.vocabulary.operations import Condition, LastOperation, RawExtension
from espalier.api.kinds import AGE, ATOMIC, Column, KubeObject, kind, listing
from espalier.api.meta import ABSENT, Observed, Part
from espalier.api.resource import Resource

GARDENLET_READY: Annotated[
    str,
    ConditionProse(
        (reasons.SEED,),
        "True: its gardenlet renews its Lease, and so reaches the seed and the garden. Unknown: it does not.",
    ),
] = "GardenletReady"

CLOCKS_AGREE: Annotated[
    str,
    ConditionProse(
        (reasons.SEED,),
        "False: its gardenlet renews its Lease with times that the garden's clock does not have. Absent until that was "
        "once so.",
    ),
] = "ClocksAgree"

SHOOTS_REMOVED: Annotated[
    str,
    ConditionProse(
        (reasons.SEED,),
        "True: the seed's cluster has nothing of shoots that the seed no longer has. Its Seed can't be "
        'deleted before, unless it is annotated `confirmation.gardener.cloud/deletion: "true"`.',
    ),
] = "MovedShootsRemoved"

SYSTEM_COMPONENTS_HEALTHY: Annotated[
    str,
    ConditionProse(
        (reasons.SEED,),
        "True: the seed has served all kinds that its gardenlet needs. Gardener's controllers let no shoot move to a "
        "seed without it.",
    ),
] = "SeedSystemComponentsHealthy"

BUCKET_REACHABLE: Annotated[
    str,
    ConditionProse(
        (reasons.SEED,),
        "True: the network of this seed reaches the store of seed SEED, TLS included, tried without "
        "credentials every ten minutes. One for each other Seed with backups.",
        placeholder="SEED",
    ),
] = "BucketReachable-"
"""Prefix, before the name of the other seed."""


SHOOTS = "shoots"
"""The resource of `status.allocatable` that limits the number of shoots."""


class CredentialsReference(Part):
    """A Secret of the garden with credentials."""

    name: str
    namespace: str
    api_version: str = ""
    kind: str = ""


class SeedBackup(Part):
    """Where the seed stores backups of its shoots' etcds."""

    provider: str
    region: str = ""
    credentials_ref: CredentialsReference | None = None
    secret_ref: Annotated[CredentialsReference | None, Meta(description="The older name of credentialsRef.")] = None
    provider_config: RawExtension = ABSENT


class SeedProvider(Part):
    """Infrastructure on which the seed itself runs."""

    type: str
    region: str = ""
    zones: Annotated[list[str], Meta(extra_json_schema=ATOMIC)] = []
    provider_config: RawExtension = ABSENT


class SeedTaint(Part):
    """A taint that keeps away shoots that do not tolerate it."""

    key: str
    value: str | None = None


class SeedNetworks(Part):
    """Address ranges of the seed; shoots' ones must not overlap with them."""

    pods: str = ""
    services: str = ""
    nodes: str = ""


class SchedulingSettings(Part):
    """Scheduling of shoots."""

    visible: Annotated[bool, Meta(description="False keeps the scheduler from choosing the seed.")] = True


class SeedSettings(Part):
    """Settings of a seed."""

    scheduling: SchedulingSettings | None = None


class SeedSpec(Part):
    """Desired state of a seed."""

    provider: SeedProvider
    backup: SeedBackup | None = None
    networks: SeedNetworks | None = None
    settings: SeedSettings | None = None
    taints: Annotated[list[SeedTaint], Meta(extra_json_schema=ATOMIC)] = []


class SeedStatus(Observed, frozen=True):
    """Observed state of a seed."""

    conditions: Annotated[list[Condition], Meta(extra_json_schema=listing("type"))] = []
    gardener: Gardener | None = None
    kubernetes_version: str = ""
    last_operation: LastOperation | None = None
    observed_generation: int = 0
    cluster_identity: str | None = None
    capacity: dict[str, int | str] = {}
    allocatable: dict[str, int | str] = {}


@kind(
    Resource(GROUP, VERSION, "seeds", "Seed", namespaced=False),
    columns=(
        Column("Status", ".status.lastOperation.state", "string", "State of the last operation"),
        Column("Ready", '.status.conditions[?(@.type=="GardenletReady")].status', "string", "Its gardenlet is ready"),
        Column("Provider", ".spec.provider.type", "string", "Type of the infrastructure"),
        Column("Region", ".spec.provider.region", "string", "Region of the provider"),
        AGE,
        Column("Version", ".status.gardener.version", "string", "Version of the gardenlet"),
        Column("K8S Version", ".status.kubernetesVersion", "string", "Kubernetes version of the seed"),
    ),
    status=True,
    partly=True,
)
class Seed(KubeObject, kw_only=True):
    """A cluster in which control planes of shoots run."""

    spec: SeedSpec
    status: SeedStatus = SeedStatus()
