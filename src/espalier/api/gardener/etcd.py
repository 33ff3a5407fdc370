"""`druid.gardener.cloud/v1alpha1 Etcd`: an etcd and the agent beside it.

With `backup.sourceStore` only the agent runs, which copies backups, and Ready means that all are copied.
"""

# ruff: noqa: RUF012  (msgspec copies empty defaults)

from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from espalier.api.definitions.reference import ConditionProse
from espalier.api.gardener.vocabulary import reasons
from espalier.api.gardener.vocabulary.operations import Condition, LastError, LastOperation, SecretReference
from espalier.api.kinds import AGE, ATOMIC, Column, KubeObject, Rule, Scale, kind, listing
from espalier.api.label_selectors import LabelSelector
from espalier.api.meta import Observed, Part
from espalier.api.resource import Resource

MAIN = "etcd-main"
"""The name of a shoot's Etcd, in the shoot's namespace."""

READY: Annotated[
    str, ConditionProse((reasons.ETCD,), "True: etcd serves, or all backups are copied where the Etcd only copies.")
] = "Ready"

DATA_VOLUMES_READY: Annotated[
    str,
    ConditionProse(
        (reasons.ETCD,), "True: no claim of its members is being deleted. Absent where the Etcd only copies."
    ),
] = "DataVolumesReady"

MEMBERS = 3
"""The number of members of an etcd that survives the loss of one."""


class Store(Part):
    """A container of an object store, and the part of it that has the etcd's backups."""

    container: str | None = None
    prefix: str = ""
    provider: str | None = None
    secret_ref: Annotated[SecretReference | None, Meta(description="Credentials, in the Etcd's namespace.")] = None
    endpoint_override: str | None = None

    @property
    def place(self) -> tuple[str | None, str | None, str]:
        """The parts of which at least one differs between stores of different backups."""
        return self.provider, self.container, self.prefix


_SAME_PLACE = " && ".join(
    f"(has(self.store.{part}) ? self.store.{part} : '')"
    f" == (has(self.sourceStore.{part}) ? self.sourceStore.{part} : '')"
    for part in ("provider", "container", "prefix")
)


class Backup(Part):
    """Backups of an etcd. Times are durations like 5m."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.sourceStore) || has(self.store)",
            "an etcd that copies backups also needs spec.backup.store, the destination",
            ".store",
            found="'nothing'",
        ),
        Rule(
            f"!has(self.sourceStore) || !has(self.store) || !({_SAME_PLACE})",
            "source and destination of the copy are the same; each ownership epoch needs its own prefix",
            ".sourceStore",
            found="has(self.sourceStore.prefix) ? self.sourceStore.prefix : 'no prefix'",
            allowed="another store or prefix",
        ),
    )

    store: Store | None = None
    source_store: Annotated[Store | None, Meta(description="Copy the backups of this store, and do not run etcd.")] = (
        None
    )
    image: str | None = None
    port: int | None = None
    full_snapshot_schedule: str | None = None
    delta_snapshot_period: str | None = None
    delta_snapshot_retention_period: str | None = None
    garbage_collection_policy: str | None = None
    garbage_collection_period: str | None = None
    etcd_snapshot_timeout: str | None = None


class PeerTls(Part):
    """TLS between members."""

    server_tls_secret_ref: Annotated[
        SecretReference | None,
        Meta(
            description="Secret with tls.crt, tls.key and ca.crt, of members and their agents. Needed by three members."
        ),
    ] = msgspec.field(name="serverTLSSecretRef", default=None)


class ClientTls(Part):
    """TLS for clients of etcd, which must present a certificate."""

    server_tls_secret_ref: Annotated[
        SecretReference | None,
        Meta(
            description="Secret of peerUrlTls, which has clients.crt as well: the authorities of clients that are "
            "admitted."
        ),
    ] = msgspec.field(name="serverTLSSecretRef", default=None)


class EtcdConfig(Part):
    """Settings of etcd itself."""

    image: str | None = None
    quota: int | str | None = None
    client_port: int | None = None
    server_port: int | None = None
    defragmentation_schedule: str | None = None
    client_url_tls: ClientTls | None = None
    peer_url_tls: PeerTls | None = None


class EtcdSpec(Part):
    """Desired state of an etcd."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"self.replicas in [0, 1, {MEMBERS}]",
            "an etcd has one member or three, or none while it is stopped",
            ".replicas",
            found="self.replicas",
            allowed=f"0, 1 or {MEMBERS}",
        ),
    )

    replicas: Annotated[int, Meta(ge=0)]
    selector: LabelSelector = msgspec.field(default_factory=LabelSelector)
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    etcd: EtcdConfig = msgspec.field(default_factory=EtcdConfig)
    backup: Backup = msgspec.field(default_factory=Backup)
    storage_capacity: int | str | None = None
    storage_class: str | None = None
    volume_claim_template: str | None = None


class EtcdStatus(Observed, frozen=True):
    """Observed state of an etcd."""

    conditions: Annotated[list[Condition], Meta(extra_json_schema=listing("type"))] = []
    last_errors: Annotated[list[LastError], Meta(extra_json_schema=ATOMIC)] = []
    last_operation: LastOperation | None = None
    observed_generation: int = 0
    replicas: int = 0
    current_replicas: int = 0
    ready_replicas: int = 0
    ready: bool | None = None
    selector: str = ""


@kind(
    Resource("druid.gardener.cloud", "v1alpha1", "etcds", "Etcd"),
    columns=(
        Column("Ready", ".status.ready", "string", "etcd is ready, or all backups are copied"),
        AGE,
        Column("Copies From", ".spec.backup.sourceStore.container", "string", "Container whose backups are copied", 1),
    ),
    status=True,
    scale=Scale(),
    partly=True,
)
class Etcd(KubeObject, kw_only=True):
    """An etcd and the agent beside it."""

    spec: EtcdSpec
    status: EtcdStatus = EtcdStatus()

    @property
    def peer_secret(self) -> str:
        """The name of the Secret with which its members know each other; empty if there is none."""
        return _named(self.spec.etcd.peer_url_tls)

    @property
    def client_secret(self) -> str:
        """The name of the Secret with which etcd serves clients; empty if it serves them without TLS."""
        return _named(self.spec.etcd.client_url_tls)


def _named(tls: PeerTls | ClientTls | None) -> str:
    reference = tls.server_tls_secret_ref if tls is not None else None
    return reference.name or "" if reference is not None else ""
