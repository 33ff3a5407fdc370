"""Controllers of the garden's BackupBuckets and BackupEntries: each becomes an extension resource of the seed.

A BackupEntry that another seed has by now is migrated away here: its Secret goes, the data in the bucket stays.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from espalier.api import json_trees
from espalier.api.conditions import timestamp
from espalier.api.core import NAMESPACE, SECRET
from espalier.api.gardener import extension_backups, metadata_keys, names, responsibility
from espalier.api.gardener.backups import BackupBucket, BackupEntry
from espalier.api.gardener.extension import Extended
from espalier.api.gardener.operations import LastError, LastOperation, OperationState, OperationType
from espalier.api.gardener.seed import Seed
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.kube.errors import Conflict, Forbidden, KubeError, NotFound
from espalier.kube.objects import Object, encode_json
from espalier.runtime.controller import Controller
from espalier.runtime.outcome import Done, Fault, Outcome, Wait
from espalier.runtime.predicates import generation_changed
from espalier.runtime.writer import Precondition, found_by_owner
from espalier.shoots.gardenlet import reach
from espalier.shoots.gardenlet.comparing import is_as_rendered, stamped
from espalier.shoots.gardenlet.context import Tools
from espalier.shoots.gardenlet.credentials import lacks_credentials
from espalier.shoots.gardenlet.names import FINALIZER, GARDEN_NAMESPACE
from espalier.shoots.gardenlet.observe import Observer
from espalier.shoots.local_provider.cloud import TYPE

SOON = 5.0
RIGHTS_SOON = 0.25
"""Seconds until a retry for an entry to which the garden has yet to grant rights: no watch reports that, and a move
waits for it."""


class Backups:
    """Both controllers."""

    def __init__(self, observer: Observer, tools: Tools) -> None:
        self._observer = observer
        self._tools = tools
        self._seed = tools.config.seed

    def controllers(self) -> list[Controller]:
        """The controllers of buckets, which follow from Seeds, and of entries."""
        observer = self._observer
        buckets = Controller("backupbucket", self._bucket, workers=2, rng=self._tools.rng)
        buckets.watch(observer.garden[Seed.resource], lambda seed: [Key("", names.bucket(seed.metadata.uid))])
        buckets.watch(observer.garden[BackupBucket.resource])
        buckets.watch(observer.seed[extension_backups.BackupBucket.resource])
        entries = Controller("backupentry", self._allowed, workers=10, rng=self._tools.rng)
        entries.watch(observer.garden[BackupEntry.resource])
        entries.watch(observer.garden[BackupBucket.resource], self._entries_of_bucket)
        entries.watch(observer.garden[Seed.resource], self._entries_of_seed, predicate=generation_changed)
        entries.watch(observer.seed[extension_backups.BackupEntry.resource], self._entry_of)
        entries.watch(observer.seed[NAMESPACE], self._entries_in)
        entries.watch(observer.seed[SECRET], self._entries_of_secret, predicate=lambda _old, new: new is None)
        return [buckets, entries]

    def _entry_of(self, found: Object) -> list[Key]:
        """The keys of an extension resource: also its own name, because its entry may be gone. The reconcile looks up
        which entry it is, because caches fill in any order."""
        return [Key("", found.name), *(one.key for one in self._entries_named(found.name))]

    def _entries_of_bucket(self, bucket: Object) -> list[Key]:
        entries = self._observer.garden[BackupEntry.resource].list()
        return [one.key for one in entries if one.decode(BackupEntry).spec.bucket_name == bucket.name]

    def _entries_of_seed(self, seed: Object) -> list[Key]:
        name = names.bucket(seed.metadata.uid)
        entries = self._observer.garden[BackupEntry.resource].list()
        return [one.key for one in entries if one.decode(BackupEntry).spec.bucket_name == name]

    def _entries_named(self, name: str) -> list[Object]:
        return [one for one in self._observer.garden[BackupEntry.resource].list() if one.name == name]

    def _entries_in(self, namespace: Object) -> list[Key]:
        return self._entries_of(namespace.name)

    def _entries_of(self, technical_id: str) -> list[Key]:
        entries = self._observer.garden[BackupEntry.resource].list()
        return [one.key for one in entries if _technical_id(one.name) == technical_id]

    def _entries_of_secret(self, secret: Object) -> list[Key]:
        """Those whose Secret in a shoot's namespace was deleted, though nothing else of them changed."""
        if secret.name not in (names.BACKUP_SECRET, names.SOURCE_BACKUP_SECRET):
            return []
        return self._entries_of(secret.namespace)

    # Buckets.

    async def _bucket(self, key: Key) -> Outcome:
        seed = self._observer.own_seed
        if seed is None or key.name != names.bucket(seed.metadata.uid):
            return Done()
        backup = seed.decode(Seed).spec.backup
        if backup is None:
            return Done()
        resource = BackupBucket.resource
        live = self._observer.garden[resource].get(key)
        provider = {"type": backup.provider, "region": backup.region}
        reference = backup.credentials_ref or backup.secret_ref
        spec: Tree = {"provider": provider, "seedName": seed.name}
        if reference is not None:
            spec["credentialsRef"] = msgspec.to_builtins(reference)
        if backup.provider_config:
            spec["providerConfig"] = json_trees.decode(bytes(backup.provider_config))
        if live is None:
            live = await self._tools.garden.create(resource, _object(resource, key, spec))
            if live is None:
                return Wait("BackupBucketCreated", "another one of this name was just created", SOON)
        typed = live.decode(BackupBucket)
        if reference is not None and reference != (typed.spec.credentials_ref or typed.spec.secret_ref):
            renewed = {"spec": {"credentialsRef": spec["credentialsRef"], "secretRef": None}}
            live = await self._tools.garden.merge(resource, live, renewed, Precondition.UID)
            typed = live.decode(BackupBucket)
        if lacking := await lacks_credentials(self._tools.garden.client, typed):
            return await self._waits(live, "CredentialsMissing", lacking, resource)
        secret = await self._credentials(typed, f"bucket-{key.name}")
        wanted = {"type": backup.provider, "region": backup.region, "secretRef": secret}
        if backup.provider_config:
            wanted["providerConfig"] = json_trees.decode(bytes(backup.provider_config))
        return await self._extended(extension_backups.BackupBucket, key, wanted, resource, live)

    # Entries.

    async def _allowed(self, key: Key) -> Outcome:
        try:
            return await self._entry(key)
        except Forbidden as refusal:  # the garden grants rights on an entry once it has seen it
            return Wait("RightsMissing", f"the garden has not granted access yet: {refusal}", after=RIGHTS_SOON)

    async def _entry(self, key: Key) -> Outcome:
        live = self._observer.garden[BackupEntry.resource].get(key)
        if live is None:
            if self._entries_named(key.name):
                return Done()
            # Gone past its finalizer: nobody can say any longer that the data is to go as well.
            return await self._away(Key("", key.name), keep_data=True)
        typed = live.decode(BackupEntry)
        if typed.spec.seed_name != self._seed:
            technical_id = _technical_id(live.name)
            if self._observer.seed[NAMESPACE].get(Key("", technical_id)) is not None:
                # An agent there may need its credentials still: it has a final snapshot to take.
                return Wait("NamespaceNotDeleted", f"namespace {technical_id} still exists", after=SOON)
            return await self._away(Key("", key.name), keep_data=True)
        if live.metadata.deletion_timestamp is not None:
            source = names.is_source_backup_entry(live.name)
            outcome = await self._away(Key("", key.name), keep_data=source)
            if isinstance(outcome, Done):
                await self._tools.garden.remove_finalizer(BackupEntry.resource, live, FINALIZER)
            return outcome
        live = await self._tools.garden.add_finalizer(BackupEntry.resource, live, FINALIZER)
        bucket = self._observer.garden[BackupBucket.resource].get(Key("", typed.spec.bucket_name))
        if bucket is None:
            message = f"spec.bucketName: found {typed.spec.bucket_name}, but there is no such BackupBucket"
            return await self._waits(live, "BucketMissing", message)
        there = bucket.decode(BackupBucket)
        if there.status.last_operation is None or not there.status.last_operation.finished:
            error = there.status.last_error
            why = f": {error.description}" if error is not None else ""
            message = f"BackupBucket {bucket.name} is not ready yet{why}"
            return await self._waits(live, "BucketNotReady", message)
        if lacking := await lacks_credentials(self._tools.garden.client, there):
            message = f"BackupBucket {bucket.name}: {lacking}"
            return await self._waits(live, "CredentialsMissing", message)
        provider = there.spec.provider
        wanted: Tree = {
            "type": provider.type,
            "region": provider.region,
            "bucketName": typed.spec.bucket_name,
            "secretRef": await self._credentials(there, f"entry-{live.name}"),
        }
        if there.status.provider_status:
            said = bytes(there.status.provider_status)
            seeds = (one.decode(Seed) for one in self._observer.garden[Seed.resource].list())
            before = self._given_before(live.name)
            wanted["backupBucketProviderStatus"] = (
                reach.trusted(said, bucket.name, seeds, before) if provider.type == TYPE else json_trees.decode(said)
            )
        lacks = self._lacks_secret(live.name)
        return await self._extended(
            extension_backups.BackupEntry, Key("", live.name), wanted, BackupEntry.resource, live, again=lacks
        )

    def _given_before(self, entry: str) -> Tree:
        """The part of a bucket's status that its extension resource has."""
        live = self._observer.seed[extension_backups.BackupEntry.resource].get(Key("", entry))
        given = live.tree.get("spec", {}).get("backupBucketProviderStatus") if live is not None else None
        return given if isinstance(given, dict) else {}

    def _lacks_secret(self, entry: str) -> bool:
        """True if the shoot's namespace was recreated since, without the Secret that the extension writes there."""
        namespace = self._observer.seed[NAMESPACE].get(Key("", _technical_id(entry)))
        if namespace is None or namespace.metadata.deletion_timestamp is not None:
            return False
        name = names.SOURCE_BACKUP_SECRET if names.is_source_backup_entry(entry) else names.BACKUP_SECRET
        return self._observer.seed[SECRET].get(Key(namespace.name, name)) is None

    async def _away(self, key: Key, *, keep_data: bool) -> Outcome:
        """Delete the extension resource of this entry, migrated first if the data in the bucket must stay."""
        kind = extension_backups.BackupEntry
        live = self._observer.seed[kind.resource].get(key)
        if live is None:
            secret = self._observer.seed[SECRET].get(Key(GARDEN_NAMESPACE, f"entry-{key.name}"))
            if secret is not None:
                await self._tools.seed.delete(SECRET, secret, found_by_owner)
            return Done()
        last, order = live.decode(kind).status.last_operation, responsibility.order(live.metadata)
        is_away = last is not None and last.is_(OperationType.MIGRATE, OperationState.SUCCEEDED) and not order
        if keep_data and not is_away:
            if order != metadata_keys.MIGRATE:
                orders = {metadata_keys.OPERATION: metadata_keys.MIGRATE, metadata_keys.TIMESTAMP: self._now}
                await self._tools.seed.merge(
                    kind.resource, live, {"metadata": {"annotations": orders}}, Precondition.UID
                )
            return Wait("BackupEntryMigrating", "waiting for the extension to release the entry", after=SOON)
        if live.metadata.deletion_timestamp is None:
            await self._tools.seed.delete(kind.resource, live, found_by_owner)
        return Wait("BackupEntryDeleting", "the extension resource is being deleted", after=SOON)

    # Both.

    @property
    def _now(self) -> str:
        return self._tools.clock.now().isoformat()

    async def _waits(
        self, live: Object, reason: str, message: str, resource: Resource = BackupEntry.resource
    ) -> Outcome:
        """Report in the status of the garden's object what it waits for. It is looked for again in a moment: no seed
        may watch Secrets of the garden."""
        last = LastOperation(OperationType.RECONCILE, OperationState.PENDING, message)
        await self._status(resource, live, last, LastError(message))
        return Wait(reason, message, after=SOON)

    async def _status(
        self, resource: Resource, live: Object, last: LastOperation, error: LastError | None, **changed: Any
    ) -> None:
        """Write the operation and its error, with the time since which they are the same, and other fields."""
        status = _typed(resource, live).status
        at = timestamp(self._tools.clock.now())
        told = {"last_operation": _timed(status.last_operation, last, at), "last_error": error}
        if error is not None:
            told["last_error"] = _timed(status.last_error, error, at)
        wanted = encode_json(msgspec.structs.replace(status, **told, **changed))  # it has parts that are not decoded
        await self._tools.garden.status(resource, live, json_trees.decode(wanted), Precondition.UID)

    async def _credentials(self, bucket: BackupBucket, name: str) -> Tree:
        """Copy the credentials of a bucket from the garden into the seed; return a reference to the copy."""
        copied = {"name": name, "namespace": GARDEN_NAMESPACE}
        reference = bucket.spec.credentials_ref or bucket.spec.secret_ref
        if reference is None:
            return copied
        found = await self._tools.garden.client.get(SECRET, reference.name, reference.namespace)
        namespace = Key("", GARDEN_NAMESPACE)
        if self._observer.seed[NAMESPACE].get(namespace) is None:
            await self._tools.seed.create(NAMESPACE, _object(NAMESPACE, namespace))
        body = stamped({**_object(SECRET, Key(GARDEN_NAMESPACE, name)), "data": found.tree.get("data") or {}})
        if not is_as_rendered(self._observer.seed[SECRET].get(Key(GARDEN_NAMESPACE, name)), body):
            await self._tools.seed.apply(SECRET, body, found_by_owner)
        return copied

    async def _extended(
        self,
        kind: type[Extended],
        key: Key,
        spec: Tree,
        resource: Resource,
        garden: Object,
        *,
        again: bool = False,
    ) -> Outcome:
        """Apply the extension resource, and report its state in the garden's object. `again`: what it created is
        gone."""
        live = self._observer.seed[kind.resource].get(key)
        body = stamped({**_object(kind.resource, key), "spec": spec})
        if live is not None and live.metadata.deletion_timestamp is not None:
            return Wait("BeingDeleted", "it is being deleted and will then be recreated", after=SOON)
        last = live.decode(kind).status.last_operation if live is not None else None
        is_away = last is not None and last.is_(OperationType.MIGRATE, OperationState.SUCCEEDED)
        is_idle = live is not None and last is not None and last.finished and not responsibility.order(live.metadata)
        if is_away or (again and is_idle) or not is_as_rendered(live, body):
            order = metadata_keys.RESTORE if is_away else metadata_keys.RECONCILE
            marks = {metadata_keys.OPERATION: order, metadata_keys.TIMESTAMP: self._now}
            metadata = {**body["metadata"], "annotations": {**body["metadata"]["annotations"], **marks}}
            live = await self._tools.seed.apply(kind.resource, {**body, "metadata": metadata}, found_by_owner)
        if live is None:
            return Wait("ExtensionResourceCreated", "the extension resource is being created", after=SOON)
        return await self._tell(resource, garden, live.decode(kind), order=responsibility.order(live.metadata))

    async def _tell(self, resource: Resource, garden: Object, extended: Extended, *, order: str) -> Outcome:
        last, error = extended.status.last_operation, extended.status.last_error
        is_done = last is not None and last.finished and not order
        state = OperationState.SUCCEEDED if is_done else OperationState.ERROR if error else OperationState.PROCESSING
        said = LastOperation(OperationType.RECONCILE, state, progress=100 if is_done else 50)
        failed = LastError(error.description, codes=error.codes) if error and not is_done else None
        changed: dict[str, Any] = {"observed_generation": garden.metadata.generation}
        if resource == BackupEntry.resource:
            changed["seed_name"] = self._seed
        elif extended.status.provider_status:
            changed["provider_status"] = extended.status.provider_status
        try:
            await self._status(resource, garden, said, failed, **changed)
        except (NotFound, Conflict) as gone:
            return Wait("ObjectChanged", f"{gone}", after=SOON)
        except KubeError as refusal:
            return Fault("StatusNotWritten", f"{refusal}")
        return Done()


def _typed(resource: Resource, found: Object) -> BackupBucket | BackupEntry:
    return found.decode(BackupEntry) if resource == BackupEntry.resource else found.decode(BackupBucket)


T = TypeVar("T", LastOperation, LastError)


def _timed(before: T | None, said: T, at: str) -> T:
    """It with the time at which it was first said."""
    is_same = before is not None and msgspec.structs.replace(before, last_update_time="") == said
    return before if before is not None and is_same else msgspec.structs.replace(said, last_update_time=at)


def _technical_id(entry: str) -> str:
    return names.original_backup_entry(entry).rpartition("--")[0]


def _object(resource: Resource, key: Key, spec: Tree | None = None) -> Tree:
    metadata = {"name": key.name, **({"namespace": key.namespace} if key.namespace else {})}
    body: Tree = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
    return body if spec is None else {**body, "spec": spec}
