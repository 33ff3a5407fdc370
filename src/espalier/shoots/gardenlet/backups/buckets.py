"""Controllers of the garden's BackupBuckets and BackupEntries: each gets an extension resource in the seed.

A BackupEntry that moved to another seed is migrated here: its Secret is deleted, the data in the bucket stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from espalier.api.conditions import timestamp
from espalier.api.core import NAMESPACE, SECRET
from espalier.api.gardener import names
from espalier.api.gardener.extensions import extension_backups
from espalier.api.gardener.extensions.extension import Extended
from espalier.api.gardener.garden.backups import BackupBucket, BackupEntry
from espalier.api.gardener.garden.seed import Seed
from espalier.api.gardener.responsibility import (
    is_deleted_unconfirmed,
    is_deletion_confirmed,
    requested_operation,
)
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.api.gardener.vocabulary.operations import (
    LastError,
    LastOperation,
    OperationState,
    OperationType,
    reported_by,
)
from espalier.api.gardener.vocabulary.reasons import BackupReason, TaskReason
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.api.trees import json_trees
from espalier.kube.errors import Conflict, Forbidden, KubeError, NotFound
from espalier.kube.objects import Object, encode_json
from espalier.runtime.controllers.controller import Controller
from espalier.runtime.controllers.outcome import Done, Fault, Outcome, Wait
from espalier.runtime.controllers.predicates import generation_changed
from espalier.runtime.controllers.writer import Precondition, found_by_owner
from espalier.shoots.bucket_providers import UNDECLARED
from espalier.shoots.extension import results
from espalier.shoots.gardenlet.backups import servers
from espalier.shoots.gardenlet.comparison import is_as_rendered, stamped
from espalier.shoots.gardenlet.context import GardenletTools
from espalier.shoots.gardenlet.credentials import credentials_problem
from espalier.shoots.gardenlet.names import FINALIZER, GARDEN_NAMESPACE
from espalier.shoots.gardenlet.observe import ShootObserver
from espalier.shoots.gardenlet.reports import reach

SOON = 5.0
"""Seconds until a retry where no event is sure to come."""
RIGHTS_SOON = 0.25
"""Seconds until a retry for an entry on which the garden has not granted rights yet: no watch reports that, and a move
waits for it."""


class Backups:
    """The controllers of BackupBuckets and BackupEntries."""

    def __init__(self, observer: ShootObserver, tools: GardenletTools) -> None:
        self._observer = observer
        self._tools = tools
        self._seed = tools.config.seed

    def controllers(self) -> list[Controller]:
        """Return the controllers, with their watches. The bucket of a Seed has the Seed's UID as its name."""
        observer = self._observer
        buckets = Controller("backupbucket", self._reconcile_bucket, workers=2, rng=self._tools.rng)
        buckets.watch(observer.garden[Seed.resource], lambda seed: [Key("", names.bucket(seed.metadata.uid))])
        buckets.watch(observer.garden[BackupBucket.resource])
        buckets.watch(observer.seed[extension_backups.BackupBucket.resource])
        entries = Controller("backupentry", self._reconcile_entry, workers=10, rng=self._tools.rng)
        entries.watch(observer.garden[BackupEntry.resource])
        entries.watch(observer.garden[BackupBucket.resource], self._entries_of_bucket)
        entries.watch(observer.garden[Seed.resource], self._entries_of_seed, predicate=generation_changed)
        entries.watch(observer.seed[extension_backups.BackupEntry.resource], self._entry_of)
        entries.watch(observer.seed[NAMESPACE], self._entries_in)
        entries.watch(observer.seed[SECRET], self._entries_of_secret, predicate=lambda _old, new: new is None)
        return [buckets, entries]

    def _entry_of(self, resource: Object) -> list[Key]:
        """The keys of the entries of an extension resource, and its own name, because its entry may be gone. The
        reconcile looks up which entry it is, because caches fill in any order."""
        return [Key("", resource.name), *(entry.key for entry in self._entries_named(resource.name))]

    def _entries_of_bucket(self, bucket: Object) -> list[Key]:
        entries = self._observer.garden[BackupEntry.resource].list()
        return [entry.key for entry in entries if entry.decode(BackupEntry).spec.bucket_name == bucket.name]

    def _entries_of_seed(self, seed: Object) -> list[Key]:
        name = names.bucket(seed.metadata.uid)
        entries = self._observer.garden[BackupEntry.resource].list()
        return [entry.key for entry in entries if entry.decode(BackupEntry).spec.bucket_name == name]

    def _entries_named(self, name: str) -> list[Object]:
        return [entry for entry in self._observer.garden[BackupEntry.resource].list() if entry.name == name]

    def _entries_in(self, namespace: Object) -> list[Key]:
        return self._entries_of(namespace.name)

    def _entries_of(self, technical_id: str) -> list[Key]:
        entries = self._observer.garden[BackupEntry.resource].list()
        return [entry.key for entry in entries if _technical_id(entry.name) == technical_id]

    def _entries_of_secret(self, secret: Object) -> list[Key]:
        """The entries whose Secret in a shoot's namespace was deleted, though nothing else of them changed."""
        if secret.name not in (names.BACKUP_SECRET, names.SOURCE_BACKUP_SECRET):
            return []
        return self._entries_of(secret.namespace)

    # Buckets.

    async def _reconcile_bucket(self, key: Key) -> Outcome:
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
            live = await self._tools.garden.create(resource, resource.body(key.name, key.namespace) | {"spec": spec})
            if live is None:
                return Wait(BackupReason.PLAN_OUTDATED, "another one of this name was just created", SOON)
        typed = live.decode(BackupBucket)
        if reference is not None and reference != (typed.spec.credentials_ref or typed.spec.secret_ref):
            renewed = {"spec": {"credentialsRef": spec["credentialsRef"], "secretRef": None}}
            live = await self._tools.garden.merge(resource, live, renewed, Precondition.UID)
            typed = live.decode(BackupBucket)
        if problem := await credentials_problem(self._tools.garden.client, typed):
            return await self._report_wait(live, BackupReason.CREDENTIALS_MISSING, problem, resource)
        secret = await self._credentials(typed, f"bucket-{key.name}")
        wanted = {"type": backup.provider, "region": backup.region, "secretRef": secret}
        if backup.provider_config:
            wanted["providerConfig"] = json_trees.decode(bytes(backup.provider_config))
        outcome = await self._deploy(extension_backups.BackupBucket, key, wanted, resource, live)
        if not isinstance(outcome, Done):
            return outcome
        # No seed may watch Secrets of the garden, and a move to this one must not begin without it.
        return Wait(
            BackupReason.CREDENTIALS_CHECK_SCHEDULED, "its Secret will be read again", after=self._tools.config.care
        )

    # Entries.

    async def _reconcile_entry(self, key: Key) -> Outcome:
        try:
            return await self._entry(key)
        except Forbidden as refusal:  # the garden grants rights on an entry once it has seen it
            return Wait(
                BackupReason.RIGHTS_MISSING, f"the garden has not granted access yet: {refusal}", after=RIGHTS_SOON
            )

    async def _entry(self, key: Key) -> Outcome:
        live = self._observer.garden[BackupEntry.resource].get(key)
        if live is None:
            if self._entries_named(key.name):
                return Done()
            # It was deleted without our finalizer: it is unknown whether its data may be deleted.
            return await self._release(Key("", key.name), keep_data=True)
        typed = live.decode(BackupEntry)
        if typed.spec.seed_name != self._seed:
            technical_id = _technical_id(live.name)
            if self._observer.seed[NAMESPACE].get(Key("", technical_id)) is not None:
                # Its agent may still need the credentials, for the final snapshot.
                return Wait(BackupReason.NAMESPACE_NOT_DELETED, f"namespace {technical_id} still exists", after=SOON)
            return await self._release(Key("", key.name), keep_data=True)
        if live.metadata.deletion_timestamp is not None:
            source = names.is_source_backup_entry(live.name)
            outcome = await self._release(Key("", key.name), keep_data=source)
            if isinstance(outcome, Done):
                await self._tools.garden.remove_finalizer(BackupEntry.resource, live, FINALIZER)
            return outcome
        live = await self._tools.garden.add_finalizer(BackupEntry.resource, live, FINALIZER)
        # The bucket must be usable first; each wait is reported on the entry.
        bucket = self._observer.garden[BackupBucket.resource].get(Key("", typed.spec.bucket_name))
        if bucket is None:
            message = f"spec.bucketName: found {typed.spec.bucket_name}, but there is no such BackupBucket"
            return await self._report_wait(live, BackupReason.BUCKET_MISSING, message)
        bucket_of_entry = bucket.decode(BackupBucket)
        last = bucket_of_entry.status.last_operation
        # Another seed's bucket has had the shoot's backups, and that seed may be lost: nobody would write its status.
        is_own = bucket_of_entry.spec.seed_name == self._seed
        if is_own and (last is None or not last.finished):
            why = reported_by(last, bucket_of_entry.status.last_error)
            message = f"BackupBucket {bucket.name} is not ready yet{why}"
            return await self._report_wait(live, BackupReason.BUCKET_NOT_READY, message)
        if problem := await credentials_problem(self._tools.garden.client, bucket_of_entry):
            message = f"BackupBucket {bucket.name}: {problem}"
            return await self._report_wait(live, BackupReason.CREDENTIALS_MISSING, message)
        # The status of a bucket may be of another seed, which could name servers of its own: it is checked first.
        provider = bucket_of_entry.spec.provider
        wanted: Tree = {
            "type": provider.type,
            "region": provider.region,
            "bucketName": typed.spec.bucket_name,
            "secretRef": await self._credentials(bucket_of_entry, f"entry-{live.name}"),
        }
        if bucket_of_entry.status.provider_status:
            status = bytes(bucket_of_entry.status.provider_status)
            seeds = [seed.decode(Seed) for seed in self._observer.garden[Seed.resource].list()]
            previous = self._previous_status(live.name)
            providers = self._tools.bucket_providers
            if providers.get(provider.type, UNDECLARED).uses_bucket_config:
                wanted["backupBucketProviderStatus"] = reach.trusted_location(
                    status, bucket.name, seeds, previous, providers
                )
            else:
                wanted["backupBucketProviderStatus"] = tree = json_trees.decode(status)
                if message := self._untrusted(tree, bucket_of_entry, seeds, previous):
                    return await self._report_wait(live, BackupReason.BUCKET_NOT_TRUSTED, message)
        is_secret_missing = self._is_secret_missing(live.name)
        return await self._deploy(
            extension_backups.BackupEntry,
            Key("", live.name),
            wanted,
            BackupEntry.resource,
            live,
            is_recreated=is_secret_missing,
        )

    def _untrusted(self, status: Any, bucket: BackupBucket, seeds: Sequence[Seed], previous: Tree) -> str:
        """The servers in the status of another seed's bucket to which this seed must not connect; empty if none."""
        name, own = bucket.metadata.name, self._observer.own_seed
        if own is not None and names.bucket(own.metadata.uid) == name:
            return ""  # written by this gardenlet
        seed = next((candidate for candidate in seeds if names.bucket(candidate.metadata.uid) == name), None)
        backup = seed.spec.backup if seed is not None else None
        raw = backup.provider_config if backup is not None else None
        config = json_trees.decode(bytes(raw)) if raw else {}
        provider = self._tools.bucket_providers.get(bucket.spec.provider.type, UNDECLARED)
        untrusted = servers.untrusted(status, config, provider.domains, name, previous)
        of_seed = f"Seed {seed.metadata.name}" if seed is not None else f"the Seed of bucket {name}, which is gone"
        allowed = f"servers of the provider, or those that spec.backup.providerConfig of {of_seed} names"
        return f"BackupBucket {name}: {'; '.join(untrusted)}; allowed: {allowed}" if untrusted else ""

    def _previous_status(self, entry: str) -> Tree:
        """The part of the bucket's status that the extension resource of this entry has now."""
        live = self._observer.seed[extension_backups.BackupEntry.resource].get(Key("", entry))
        status = (live.tree.get("spec") or {}).get("backupBucketProviderStatus") if live is not None else None
        return status if isinstance(status, dict) else {}

    def _is_secret_missing(self, entry: str) -> bool:
        """True if the shoot's namespace lacks the Secret that the extension writes there, because it was recreated."""
        namespace = self._observer.seed[NAMESPACE].get(Key("", _technical_id(entry)))
        if namespace is None or namespace.metadata.deletion_timestamp is not None:
            return False
        name = names.SOURCE_BACKUP_SECRET if names.is_source_backup_entry(entry) else names.BACKUP_SECRET
        return self._observer.seed[SECRET].get(Key(namespace.name, name)) is None

    async def _release(self, key: Key, *, keep_data: bool) -> Outcome:
        """Delete the extension resource of this entry, migrated first if the data in the bucket must stay."""
        kind = extension_backups.BackupEntry
        live = self._observer.seed[kind.resource].get(key)
        if live is None:
            secret = self._observer.seed[SECRET].get(Key(GARDEN_NAMESPACE, f"entry-{key.name}"))
            if secret is not None:
                await self._tools.seed.delete(SECRET, secret, found_by_owner)
            return Done()
        last, requested = live.decode(kind).status.last_operation, requested_operation(live.metadata)
        is_migrated = last is not None and last.is_(OperationType.MIGRATE, OperationState.SUCCEEDED) and not requested
        if keep_data and not is_migrated:
            await self._request_migration(kind.resource, live)
            return Wait(
                BackupReason.BACKUP_ENTRY_MIGRATING, "waiting for the extension to release the entry", after=SOON
            )
        if not keep_data and not is_deletion_confirmed(live.metadata):
            confirmed = {"metadata": {"annotations": {metadata_keys.CONFIRM_DELETION: "true"}}}
            live = await self._tools.seed.merge(kind.resource, live, confirmed, Precondition.UID)
        if live.metadata.deletion_timestamp is None:
            await self._tools.seed.delete(kind.resource, live, found_by_owner)
        return Wait(BackupReason.DELETING, "the extension resource is being deleted", after=SOON)

    # Both.

    @property
    def _now(self) -> str:
        return self._tools.clock.now().isoformat()

    async def _report_wait(
        self, live: Object, reason: str, message: str, resource: Resource = BackupEntry.resource
    ) -> Outcome:
        """Report in the status of the garden's object what it waits for. Retried soon: no seed may watch Secrets of the
        garden."""
        operation = LastOperation(OperationType.RECONCILE, OperationState.PENDING, message)
        await self._status(resource, live, operation, LastError(message))
        return Wait(reason, message, after=SOON)

    async def _status(
        self, resource: Resource, live: Object, last: LastOperation, error: LastError | None, **fields: Any
    ) -> None:
        """Write the last operation, the last error and other fields. Times change only with what they belong to."""
        status = _typed(resource, live).status
        at = timestamp(self._tools.clock.now())
        changes = {"last_operation": _timed(status.last_operation, last, at), "last_error": error}
        if error is not None:
            changes["last_error"] = _timed(status.last_error, error, at)
        body = encode_json(msgspec.structs.replace(status, **changes, **fields))  # parts of it are not decoded
        await self._tools.garden.status(resource, live, json_trees.decode(body), Precondition.UID)

    async def _credentials(self, bucket: BackupBucket, name: str) -> Tree:
        """Copy the credentials of a bucket from the garden into the seed; return a reference to the copy."""
        copy = {"name": name, "namespace": GARDEN_NAMESPACE}
        reference = bucket.spec.credentials_ref or bucket.spec.secret_ref
        if reference is None:
            return copy
        secret = await self._tools.garden.client.get(SECRET, reference.name, reference.namespace)
        namespace = Key("", GARDEN_NAMESPACE)
        if self._observer.seed[NAMESPACE].get(namespace) is None:
            await self._tools.seed.create(NAMESPACE, NAMESPACE.body(namespace.name))
        body = stamped({**SECRET.body(name, GARDEN_NAMESPACE), "data": secret.tree.get("data") or {}})
        if not is_as_rendered(self._observer.seed[SECRET].get(Key(GARDEN_NAMESPACE, name)), body):
            await self._tools.seed.apply(SECRET, body, found_by_owner)
        return copy

    async def _deploy(
        self,
        kind: type[Extended],
        key: Key,
        spec: Tree,
        resource: Resource,
        garden: Object,
        *,
        is_recreated: bool = False,
    ) -> Outcome:
        """Apply the extension resource, and report its state in the garden's object. `is_recreated`: the shoot's
        namespace is another one, so the resource is reconciled again."""
        live = self._observer.seed[kind.resource].get(key)
        body = stamped({**kind.resource.body(key.name, key.namespace), "spec": spec})
        if live is not None and live.metadata.deletion_timestamp is not None:
            if is_deleted_unconfirmed(live.metadata):
                await self._request_migration(kind.resource, live)
            return Wait(BackupReason.DELETING, "it is being deleted and will then be recreated", after=SOON)
        last = live.decode(kind).status.last_operation if live is not None else None
        is_migrated = last is not None and last.is_(OperationType.MIGRATE, OperationState.SUCCEEDED)
        is_idle = live is not None and last is not None and last.finished and not requested_operation(live.metadata)
        if is_migrated or (is_recreated and is_idle) or not is_as_rendered(live, body):
            operation = metadata_keys.RESTORE if is_migrated else metadata_keys.RECONCILE
            request = {metadata_keys.OPERATION: operation, metadata_keys.TIMESTAMP: self._now}
            metadata = {**body["metadata"], "annotations": {**body["metadata"]["annotations"], **request}}
            live = await self._tools.seed.apply(kind.resource, {**body, "metadata": metadata}, found_by_owner)
        if live is None:
            return Wait(BackupReason.PLAN_OUTDATED, "the extension resource is being created", after=SOON)
        if problem := results.problem(live):
            return await self._report_wait(garden, TaskReason.RESULTS_CHANGED, problem, resource)
        return await self._report(resource, garden, live.decode(kind), requested=requested_operation(live.metadata))

    async def _request_migration(self, resource: Resource, live: Object) -> None:
        if requested_operation(live.metadata) != metadata_keys.MIGRATE:
            request = {metadata_keys.OPERATION: metadata_keys.MIGRATE, metadata_keys.TIMESTAMP: self._now}
            await self._tools.seed.merge(resource, live, {"metadata": {"annotations": request}}, Precondition.UID)

    async def _report(self, resource: Resource, garden: Object, extended: Extended, *, requested: str) -> Outcome:
        last, error = extended.status.last_operation, extended.status.last_error
        is_done = last is not None and last.finished and not requested
        state = OperationState.SUCCEEDED if is_done else OperationState.ERROR if error else OperationState.PROCESSING
        # What never had a status was seen by no extension: nobody else would say so.
        silence = f"no extension of type {extended.spec.type} has acted on it in seed {self._seed}: check if it runs"
        description = silence if last is None else ""
        operation = LastOperation(OperationType.RECONCILE, state, description, progress=100 if is_done else 50)
        failure = LastError(error.description, codes=error.codes) if error and not is_done else None
        changed: dict[str, Any] = {"observed_generation": garden.metadata.generation}
        if resource == BackupEntry.resource:
            changed["seed_name"] = self._seed
        elif extended.status.provider_status:
            changed["provider_status"] = extended.status.provider_status
        try:
            await self._status(resource, garden, operation, failure, **changed)
        except (NotFound, Conflict) as conflict:
            return Wait(BackupReason.PLAN_OUTDATED, f"{conflict}", after=SOON)
        except KubeError as refusal:
            return Fault(BackupReason.STATUS_NOT_WRITTEN, f"{refusal}")
        return Done()


def _typed(resource: Resource, object_: Object) -> BackupBucket | BackupEntry:
    return object_.decode(BackupEntry) if resource == BackupEntry.resource else object_.decode(BackupBucket)


T = TypeVar("T", LastOperation, LastError)


def _timed(before: T | None, present: T, at: str) -> T:
    """Add the time at which the operation or error was first reported."""
    is_same = before is not None and msgspec.structs.replace(before, last_update_time="") == present
    return before if before is not None and is_same else msgspec.structs.replace(present, last_update_time=at)


def _technical_id(entry: str) -> str:
    return names.original_backup_entry(entry).rpartition("--")[0]
