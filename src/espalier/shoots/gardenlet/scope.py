"""The frozen input of one reconcile of a shoot: from caches, and from the two live reads before the flow."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from espalier.api.gardener import names
from espalier.api.gardener.etcd import MEMBERS, Etcd
from espalier.api.gardener.extensions.cluster import Cluster
from espalier.api.gardener.extensions.extension import Extended
from espalier.api.gardener.garden.backups import BackupBucket
from espalier.api.gardener.garden.seed import Seed
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.garden.shoot_state import ShootState
from espalier.api.gardener.numbers import whole_number
from espalier.api.gardener.ownership import Ownership
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.api.gardener.vocabulary.metadata_keys import PLAIN_CLIENTS
from espalier.api.trees import json_trees
from espalier.kube.objects import Object
from espalier.shoots.gardenlet.names import API_SERVER, BACKUPS_SINCE, COPIED_EPOCH, SHOOT_UID
from espalier.shoots.secrets import names as secret_names
from espalier.shoots.secrets import peers
from espalier.shoots.secrets.persisted import Data, decoded

_MARKED = 3
"""The objects of a seed that are annotated with their epoch, besides extension resources."""


@dataclass(frozen=True)
class ExtensionResource:
    """An existing extension resource, decoded as its own kind."""

    kind: type[Extended]
    object: Object

    @property
    def typed(self) -> Extended:
        """The typed view."""
        return self.object.decode(self.kind)


@dataclass(frozen=True)
class Scope:
    """One shoot, as its gardenlet observes it."""

    object: Object
    """The Shoot, as read live or written since."""
    now: datetime
    seed_name: str
    """The seed of this gardenlet."""
    technical_id: str
    seed: Seed | None
    ownership: Ownership
    state: Object | None
    """The ShootState; None if there is none, or if this seed may not read it."""
    bucket: BackupBucket | None
    """The BackupBucket of this seed."""
    backup_entry: Object | None
    source_backup_entry: Object | None
    namespace: Object | None
    cluster: Object | None
    etcd: Object | None
    secrets: Mapping[str, Object]
    deployments: Mapping[str, Object]
    services: Mapping[str, Object]
    service_accounts: Mapping[str, Object]
    """Those of programs of the control plane, as their bindings."""
    role_bindings: Mapping[str, Object]
    pod_roles: frozenset[str]
    """The programs of the control plane that have pods, including terminating ones."""
    extensions: tuple[ExtensionResource, ...]
    """All extension resources in the namespace, including those that are no longer rendered."""
    backup_resources: tuple[Object, ...] = ()
    """The extension resources of its BackupEntry and of the seed's BackupBucket, if they exist."""

    @property
    def shoot(self) -> Shoot:
        """The typed Shoot."""
        return self.object.decode(Shoot)

    @property
    def uid(self) -> str:
        """The identity of the shoot that survives migrations."""
        return self.shoot.status.uid or self.object.metadata.uid

    @property
    def epoch(self) -> int:
        """The current epoch; 0 if the garden has not added one."""
        current = self.ownership.current
        return current.epoch if current is not None else 0

    @property
    def is_owner(self) -> bool:
        """True if the current epoch is this seed's."""
        current = self.ownership.current
        return current is not None and current.seed == self.seed_name

    @property
    def is_started(self) -> bool:
        """True if the garden has a record that this epoch's etcd may have started."""
        current = self.ownership.current
        return self.is_owner and current is not None and current.started

    @property
    def is_hibernated(self) -> bool:
        """True if the control plane must be hibernated."""
        hibernation = self.shoot.spec.hibernation
        return hibernation is not None and bool(hibernation.enabled)

    @property
    def is_copied(self) -> bool:
        """True if the copy for this epoch is complete."""
        entry = self.backup_entry
        return entry is not None and entry.metadata.annotations.get(COPIED_EPOCH) == str(self.epoch)

    @property
    def is_emptied(self) -> bool:
        """True if the shoot's deletion has deleted the predecessor's backups, or the predecessor started empty since:
        there is nothing to copy."""
        before, entry = self.ownership.predecessor, self.backup_entry
        if before is None or entry is None or self.object.metadata.deletion_timestamp is None:
            return False
        since = whole_number(entry.metadata.annotations.get(BACKUPS_SINCE))
        return since is not None and since >= before.epoch

    @property
    def persisted(self) -> ShootState | None:
        """The typed ShootState."""
        return self.state.decode(ShootState) if self.state is not None else None

    @cached_property
    def persisted_secrets(self) -> dict[str, Data]:
        """The secrets in the ShootState. One that can't be decoded counts as missing."""
        persisted = self.persisted
        entries = persisted.gardenlet.secrets if persisted is not None else []
        values = {entry.name: decoded(entry.data) for entry in entries}
        return {name: data for name, data in values.items() if data is not None}

    @cached_property
    def secrets_in_seed(self) -> dict[str, Data]:
        """The content of the Secrets in the shoot's namespace."""
        return {
            name: {key: b64decode(value) for key, value in (secret.tree.get("data") or {}).items()}
            for name, secret in self.secrets.items()
        }

    @property
    def objects(self) -> Iterator[Object]:
        """All that is observed in the seed."""
        for object_ in (self.namespace, self.cluster, self.etcd):
            if object_ is not None:
                yield object_
        groups = (self.secrets, self.deployments, self.services, self.service_accounts, self.role_bindings)
        for group in groups:
            yield from group.values()
        yield from (extension.object for extension in self.extensions)
        yield from self.backup_resources

    def extension(self, kind: type[Extended], name: str) -> Object | None:
        """The extension resource of that name."""
        return next(
            (
                extension.object
                for extension in self.extensions
                if extension.kind is kind and extension.object.name == name
            ),
            None,
        )

    @property
    def typed_etcd(self) -> Etcd | None:
        """The typed Etcd."""
        return self.etcd.decode(Etcd) if self.etcd is not None else None

    @property
    def is_etcd_ready(self) -> bool:
        """True if all pods of the Etcd, as it is now, are ready."""
        live, typed = self.etcd, self.typed_etcd
        if live is None or typed is None or live.metadata.deletion_timestamp is not None:
            return False
        return bool(typed.status.ready) and typed.status.observed_generation >= live.metadata.generation

    @property
    def peer_use(self) -> peers.Use:
        """The Secret of its members, and whether all of them have it, and API servers the one that belongs to it."""
        typed = self.typed_etcd
        if typed is None:
            return peers.Use()
        if typed.spec.replicas:
            has_client = not typed.client_secret or self._is_client_settled(peers.client_secret(typed.client_secret))
            return peers.Use(typed.peer_secret, self.is_etcd_ready and has_client)
        return peers.Use(is_settled=typed.status.replicas == 0)

    @property
    def has_plain_clients(self) -> bool:
        """True if etcd must still answer without TLS, because API servers of an earlier gardenlet have no certificate.

        One that demands certificates always will, whatever API servers present.
        """
        typed = self.typed_etcd
        if typed is None or (typed.client_secret and PLAIN_CLIENTS not in typed.metadata.annotations):
            return False
        return not self._is_client_settled(peers.client_secret(typed.client_secret))

    @property
    def client_secret(self) -> str:
        """The Secret with which an API server reaches etcd; empty while that etcd demands no certificate."""
        typed = self.typed_etcd
        if typed is None or not typed.client_secret:
            return ""
        may_be_plain = PLAIN_CLIENTS in typed.metadata.annotations and not self.is_etcd_ready
        if may_be_plain and not self._client_secret_of_api_server:
            return ""  # a member may not have a certificate yet
        return peers.client_secret(typed.client_secret)

    @property
    def _client_secret_of_api_server(self) -> str:
        """The Secret with which the present API server reaches etcd; empty if it has none."""
        live = self.deployments.get(API_SERVER)
        pod = live.tree["spec"].get("template", {}).get("spec", {}) if live is not None else {}
        secrets = ((volume.get("secret") or {}).get("secretName") or "" for volume in pod.get("volumes") or ())
        return next((name for name in secrets if name.startswith(f"{secret_names.ETCD_CLIENT}-")), "")

    def _is_client_settled(self, secret: str) -> bool:
        """True if all pods of API servers have this Secret of a client of etcd, or there are none."""
        live = self.deployments.get(API_SERVER)
        if live is None:
            return not self.has_pods(API_SERVER)
        status = live.tree.get("status") or {}
        if status.get("observedGeneration", 0) < live.metadata.generation:
            return False
        wanted = live.tree["spec"].get("replicas", 1)
        if not wanted:
            return not status.get("replicas", 0) and not self.has_pods(API_SERVER)
        if not secret or self._client_secret_of_api_server != secret:
            return False
        counts = (status.get(name, 0) for name in ("replicas", "updatedReplicas", "availableReplicas"))
        return all(count == wanted for count in counts)

    @property
    def peer_files(self) -> Data | None:
        """The files with which its agents are called; None if they have no TLS, or the Secret is missing."""
        typed = self.typed_etcd
        return self.secrets_in_seed.get(typed.peer_secret) if typed is not None else None

    @property
    def lacks_peer_files(self) -> bool:
        """True if its agents have TLS, and somebody has deleted the Secret with which they are called."""
        typed = self.typed_etcd
        return typed is not None and bool(typed.peer_secret) and self.peer_files is None

    @property
    def etcd_members(self) -> int:
        """The number of members of the shoot's etcd while it runs."""
        control_plane = self.shoot.spec.control_plane
        return 1 if control_plane is None or control_plane.high_availability is None else MEMBERS

    def has_pods(self, program: str) -> bool:
        """True if this program of the control plane has a pod, terminating or not."""
        return program.removeprefix("kube-") in self.pod_roles

    @property
    def entry_name(self) -> str:
        """The name of the shoot's BackupEntry."""
        return names.backup_entry(self.technical_id, self.uid)

    @property
    def source_entry_name(self) -> str:
        """The name of the BackupEntry of the seed from which the shoot comes."""
        return names.source_backup_entry(self.technical_id, self.uid)

    @property
    def leftover_epoch(self) -> int | None:
        """The newest epoch in annotations of the namespace, the Cluster and the Etcd, up to the current one; None if
        none of them has one. Each of them may have been edited: one that looks older does not make the rest so."""
        return max((epoch for epoch in self._epochs_in_seed if epoch <= self.epoch), default=None)

    @property
    def later_epoch(self) -> int | None:
        """The epoch of which the namespace, the Cluster and the Etcd all are, if the garden does not know it yet: its
        ownership epochs were changed, or are those of an older backup. None if they are not all of a later epoch."""
        epochs = self._epochs_in_seed
        is_known = len(epochs) < _MARKED or min(epochs) <= self.epoch
        return None if is_known else max(epochs)

    @property
    def _epochs_in_seed(self) -> list[int]:
        texts = (
            object_.metadata.annotations.get(metadata_keys.EPOCH)
            for object_ in (self.namespace, self.cluster, self.etcd)
            if object_ is not None
        )
        return [epoch for epoch in map(whole_number, texts) if epoch is not None]

    def holder_of(self, object_: Object) -> str | None:
        """The UID of the shoot that a namespace or a Cluster belongs to: by its annotation, by that of the other one if
        somebody has removed it, or by the Shoot in the Cluster; None if all are missing."""
        uids = [
            part.metadata.annotations.get(SHOOT_UID)
            for part in (object_, self.namespace, self.cluster)
            if part is not None
        ]
        return next(filter(None, uids), None) or _uid_in(self.cluster)


def _uid_in(cluster: Object | None) -> str | None:
    """The UID of the Shoot in a Cluster; None if it has none."""
    shoot = cluster.decode(Cluster).spec.shoot if cluster is not None else None
    tree = json_trees.decode(bytes(shoot)) if shoot else None
    status = tree.get("status") if isinstance(tree, dict) else None
    uid = status.get("uid") if isinstance(status, dict) else None
    return uid if isinstance(uid, str) else None
