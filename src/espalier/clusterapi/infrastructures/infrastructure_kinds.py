"""Parts of the kinds of infrastructure providers that Cluster API's contracts make alike."""

# ruff: noqa: RUF012  (msgspec copies empty defaults)
from typing import Annotated, Generic, Literal, Self, TypeVar

from msgspec import Meta

from espalier.api.capi.cluster import FailureDomain
from espalier.api.capi.machine import MachineAddress, TemplateMeta
from espalier.api.kinds import ATOMIC, Column, KindsOf, KubeObject, listing
from espalier.api.meta import Condition, ObjectMeta, Observed, Part
from espalier.clusterapi.infrastructures.infrastructure import GROUP, DomainStatus, Initialization

S = TypeVar("S", bound=Part)

CLUSTER_COLUMN = Column(
    "Cluster", ".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']", "string", "Cluster the object belongs to"
)
PROVIDER_ID_COLUMN = Column(
    "ProviderID", ".spec.providerID", "string", "The machine's ID at the infrastructure provider"
)


def declares(version: str, contract: Literal["v1beta1", "v1beta2"]) -> KindsOf:
    """The kinds of a provider, of which this version implements the contract."""
    return KindsOf(GROUP, version, ("cluster-api",), {f"cluster.x-k8s.io/{contract}": version}, partly=True)


class LocalReference(Part):
    """An object, by its kind and name: of the same namespace, or of none."""

    kind: str
    name: str


class MachineTemplateResource(Part, Generic[S]):
    """The template of new machines."""

    spec: S
    metadata: TemplateMeta | None = None


class MachineTemplateSpec(Part, Generic[S]):
    """The spec of a machine template."""

    template: MachineTemplateResource[S]


class MachineTemplate(KubeObject, Generic[S], kw_only=True):
    """The template of machines with this spec; immutable, so other content gets another name."""

    spec: MachineTemplateSpec[S]

    @classmethod
    def of(cls, metadata: ObjectMeta, machine: S) -> Self:
        """The template of machines like this one."""
        return cls(metadata=metadata, spec=MachineTemplateSpec(template=MachineTemplateResource(spec=machine)))


class ClusterStatus(Observed, frozen=True):
    """The status of an infrastructure cluster, by contract v1beta2."""

    initialization: Initialization = Initialization()
    failure_domains: Annotated[list[FailureDomain], Meta(extra_json_schema=listing("name"))] = []
    conditions: Annotated[list[Condition], Meta(extra_json_schema=listing("type"))] = []


class MachineStatus(Observed, frozen=True):
    """The status of an infrastructure machine, by contract v1beta2."""

    initialization: Initialization = Initialization()
    addresses: Annotated[list[MachineAddress], Meta(extra_json_schema=ATOMIC)] = []
    conditions: Annotated[list[Condition], Meta(extra_json_schema=listing("type"))] = []


class OlderClusterStatus(Observed, frozen=True):
    """The status of an infrastructure cluster, by contract v1beta1."""

    ready: bool = False
    failure_domains: dict[str, DomainStatus] = {}
    conditions: Annotated[list[Condition], Meta(extra_json_schema=ATOMIC)] = []


class OlderMachineStatus(Observed, frozen=True):
    """The status of an infrastructure machine, by contract v1beta1."""

    ready: bool = False
    addresses: Annotated[list[MachineAddress], Meta(extra_json_schema=ATOMIC)] = []
    conditions: Annotated[list[Condition], Meta(extra_json_schema=ATOMIC)] = []
