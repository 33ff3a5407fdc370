"""`extensions.gardener.cloud/v1alpha1 Worker`: the machines of a shoot, in pools."""

# ruff: noqa: RUF012  (msgspec copies empty defaults)
from typing import Annotated

import msgspec
from msgspec import Meta

from espalier.api.core import Taint
from espalier.api.gardener.extensions.extension import (
    COLUMNS,
    Extended,
    ExtensionSpec,
    ExtensionStatus,
    extension_kind,
)
from espalier.api.gardener.extensions.infrastructure import REGION_COLUMN
from espalier.api.gardener.vocabulary.operations import RawExtension, SecretReference, Time
from espalier.api.kinds import ATOMIC, INT_OR_STRING, listing
from espalier.api.meta import ABSENT, Observed, Part


class MachineImage(Part):
    """Name and version of a machine image of the cloud profile."""

    name: str
    version: str = ""


class Volume(Part):
    """The root disk of a machine."""

    size: str
    type: str = ""
    name: str = ""
    encrypted: bool | None = None


class UserDataReference(Part):
    """The key of a Secret that has the user data of a pool's machines."""

    name: str
    key: str


class WorkerPool(Part):
    """A number of equal machines."""

    name: str
    machine_type: str
    minimum: Annotated[int, Meta(ge=0)]
    maximum: Annotated[int, Meta(ge=0)]
    max_surge: Annotated[int | str, Meta(extra_json_schema=INT_OR_STRING)]
    max_unavailable: Annotated[int | str, Meta(extra_json_schema=INT_OR_STRING)]
    machine_image: MachineImage | None = None
    user_data_secret_ref: UserDataReference | None = None
    kubernetes_version: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    taints: Annotated[list[Taint], Meta(extra_json_schema=ATOMIC)] = []
    zones: Annotated[list[str], Meta(extra_json_schema=ATOMIC)] = []
    volume: Volume | None = None
    provider_config: RawExtension = ABSENT


class WorkerSpec(ExtensionSpec):
    """Desired state of the machines."""

    region: str = ""
    secret_ref: Annotated[SecretReference | None, Meta(description="Credentials of the provider.")] = None
    infrastructure_provider_status: RawExtension = ABSENT
    ssh_public_key: bytes = msgspec.field(default=b"", name="sshPublicKey")
    pools: Annotated[list[WorkerPool], Meta(extra_json_schema=listing("name"))] = []


class PoolDeployment(Observed, frozen=True):
    """A MachineDeployment of a pool: the autoscaler reads its limits."""

    name: str
    minimum: int = 0
    maximum: int = 0


class WorkerStatus(ExtensionStatus, frozen=True):
    """Observed state of the machines."""

    machine_deployments: Annotated[list[PoolDeployment], Meta(extra_json_schema=listing("name"))] = []
    machine_deployments_last_update_time: Time | None = None


@extension_kind(COLUMNS[0], REGION_COLUMN, *COLUMNS[1:], short_names=("worker",))
class Worker(Extended, kw_only=True):
    """The machines of a shoot."""

    spec: WorkerSpec
    status: WorkerStatus = WorkerStatus()
