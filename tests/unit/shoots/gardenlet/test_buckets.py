"""The garden's BackupBuckets and BackupEntries in a seed, and above all when nothing is deleted."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from espalier.api.core import NAMESPACE, SECRET
from espalier.api.gardener import names
from espalier.api.gardener.extensions import extension_backups
from espalier.api.gardener.garden.backups import BackupBucket, BackupEntry
from espalier.api.gardener.garden.seed import Seed
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.kube.errors import Conflict, Forbidden, NotFound
from espalier.kube.objects import Object, encode_json
from espalier.runtime.controllers.outcome import Done, Outcome, Wait
from espalier.shoots.bucket_providers import BucketCapabilities
from espalier.shoots.extension import results
from espalier.shoots.gardenlet.backups import buckets
from espalier.shoots.gardenlet.config import GardenletConfig
from espalier.shoots.gardenlet.context import GardenletTools
from espalier.shoots.gardenlet.names import FINALIZER, GARDEN_NAMESPACE
from espalier.shoots.gardenlet.observe import ShootObserver
from tests.support.gardens.gardenlet_scopes import NOW, TECHNICAL_ID, an_object

ENTRY = f"{TECHNICAL_ID}--1"
SOURCE = names.SOURCE_PREFIX + ENTRY
BUCKET = names.bucket("uid-of-a")
URL = f"s3://{BUCKET}"
DELETED: dict[str, Any] = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [FINALIZER]}
SECRETS = (names.BACKUP_SECRET, names.SOURCE_BACKUP_SECRET)


class Cached:
    """A cache with these objects."""

    def __init__(self, present: tuple[Object, ...] = ()) -> None:
        self.present = {object_.key: object_ for object_ in present}

    def get(self, key: Key) -> Object | None:
        return self.present.get(key)

    def list(self) -> list[Object]:
        return list(self.present.values())


class Spy:
    """A writer that notes what is asked for, and lets it come true in no cache."""

    def __init__(self, place: str) -> None:
        self.place, self.log = place, list[str]()
        self.applied: list[Tree] = []
        self.read: list[str] = []
        self.written: Any = None
        self.refuses = self.conflicts = self.lacks_secrets = self.has_empty_secrets = False
        self.client = self

    def _note(self, verb: str, resource: Resource, name: str) -> None:
        if self.refuses:
            raise Forbidden.of("not granted yet")
        self.log.append(f"{verb} {resource.kind} {name}")

    async def get(self, resource: Resource, name: str, namespace: str) -> Object:
        self.read.append(name)
        if self.lacks_secrets:
            raise NotFound.of(f"secrets {name} not found")
        return an_object(resource, name, namespace, data={} if self.has_empty_secrets else {"account": "YQ=="})

    async def create(self, resource: Resource, body: Tree) -> Object | None:
        self._note("create", resource, body["metadata"]["name"])
        return Object(encode_json(body))

    async def apply(self, resource: Resource, body: Tree, _belongs: object) -> Object:
        order = body["metadata"].get("annotations", {}).get(metadata_keys.OPERATION, "")
        self._note(f"apply, to {order}" if order else "apply", resource, body["metadata"]["name"])
        self.applied.append(body)
        return Object(encode_json(body))

    async def merge(self, resource: Resource, live: Object, patch: Tree, *_: object) -> Object:
        if "spec" in patch:
            self._note("correct", resource, live.name)
            return Object(encode_json({**live.tree, "spec": {**live.tree["spec"], **patch["spec"]}}))
        annotations = patch["metadata"]["annotations"]
        self._note(annotations.get(metadata_keys.OPERATION, "confirm"), resource, live.name)
        return live

    async def delete(self, resource: Resource, live: Object, _belongs: object) -> None:
        self._note("delete", resource, live.name)

    async def status(self, resource: Resource, live: Object, wanted: Any, *_: object, before: object = None) -> Object:
        if self.conflicts:
            raise Conflict.of("changed meanwhile")
        self.written = wanted
        return live

    async def add_finalizer(self, resource: Resource, live: Object, _finalizer: str) -> Object:
        self._note("hold", resource, live.name)
        return live

    async def remove_finalizer(self, resource: Resource, live: Object, _finalizer: str) -> None:
        self._note("removed the finalizer of", resource, live.name)


class World:
    """Seed `a`: what is there, and what its gardenlet asks for."""

    def __init__(self, *present: Object) -> None:
        self.garden, self.seed = Spy("garden"), Spy("seed")
        self.now = NOW
        self.providers = {"local": BucketCapabilities(uses_bucket_config=True)}

        def cached(resource: Resource) -> Cached:
            return Cached(
                tuple(object_ for object_ in present if (object_.kind, object_.tree["apiVersion"]) == _of(resource))
            )

        of_garden = (Seed.resource, BackupBucket.resource, BackupEntry.resource)
        of_seed = (
            NAMESPACE,
            SECRET,
            extension_backups.BackupBucket.resource,
            extension_backups.BackupEntry.resource,
        )
        observer = SimpleNamespace(
            garden={resource: cached(resource) for resource in of_garden},
            seed={resource: cached(resource) for resource in of_seed},
            own_seed=next((object_ for object_ in present if object_.kind == "Seed" and object_.name == "a"), None),
        )
        tools = SimpleNamespace(
            config=GardenletConfig("a"),
            garden=self.garden,
            seed=self.seed,
            clock=SimpleNamespace(now=lambda: self.now),
            bucket_providers=self.providers,
            rng=None,
        )
        self.backups = buckets.Backups(cast(ShootObserver, observer), cast(GardenletTools, tools))

    async def entry(self, name: str = ENTRY, namespace: str = "garden-dev") -> Outcome:
        return await self.backups._reconcile_entry(Key(namespace, name))


def _of(resource: Resource) -> tuple[str, str]:
    return resource.kind, resource.api_version


def entry(name: str = ENTRY, seed: str = "a", **metadata: Any) -> Object:
    spec = {"bucketName": BUCKET, "seedName": seed}
    return an_object(BackupEntry.resource, name, "garden-dev", metadata=metadata, spec=spec)


def bucket(state: str = "Succeeded", name: str = BUCKET, provider: str = "local") -> Object:
    spec = {
        "provider": {"type": provider, "region": "here"},
        "seedName": "a",
        "credentialsRef": {"name": "backup-a", "namespace": "garden"},
    }
    status = {"lastOperation": {"type": "Reconcile", "state": state}, "providerStatus": {"url": URL, "more": 1}}
    return an_object(BackupBucket.resource, name, spec=spec, status=status)


@pytest.mark.parametrize("provider", ["local", "acme"])
async def test_a_declared_status_is_reduced_to_its_place(provider: str) -> None:
    world = World(entry(), bucket(provider=provider), namespace(), *map(secret, SECRETS))
    world.providers.clear()
    await world.entry()
    assert world.seed.applied[-1]["spec"]["backupBucketProviderStatus"] == {"url": URL, "more": 1}
    world.providers[provider] = BucketCapabilities(uses_bucket_config=True)
    await world.entry()
    assert world.seed.applied[-1]["spec"]["backupBucketProviderStatus"] == {"url": URL}


async def test_entry_leads_to_no_server_of_another_seed() -> None:
    """Its gardenlet writes the status of its bucket, and this one sends credentials there."""
    tree = bucket(provider="acme").tree
    tree["status"]["providerStatus"] = {"endpoint": "https://evil.example"}
    world = World(entry(), Object(encode_json(tree)), namespace(), *map(secret, SECRETS))
    assert of(await world.entry()) == "BucketNotTrusted"
    assert world.seed.applied == [body for body in world.seed.applied if body["kind"] == "Secret"]
    description = world.garden.written["lastError"]["description"]
    assert "status.providerStatus.endpoint: found https://evil.example; allowed: servers of the provider" in description
    config = {"endpoint": "https://evil.example"}
    seed = an_object(
        Seed.resource,
        "b",
        metadata={"uid": "uid-of-a"},
        spec={"provider": {"type": "acme"}, "backup": {"provider": "acme", "providerConfig": config}},
    )
    world = World(entry(), Object(encode_json(tree)), namespace(), seed, *map(secret, SECRETS))
    await world.entry()
    given = next(body for body in world.seed.applied if body["kind"] == "BackupEntry")["spec"]
    assert given["backupBucketProviderStatus"] == config


def in_seed(last: str = "Create Succeeded", order: str = "", name: str = ENTRY, **metadata: Any) -> Object:
    """The extension resource of the entry."""
    kind, state = last.split()
    annotations = {metadata_keys.OPERATION: order} if order else {}
    metadata = {"annotations": annotations, **metadata}
    status = {"lastOperation": {"type": kind, "state": state}}
    spec = {"type": "local", "bucketName": BUCKET}
    return an_object(extension_backups.BackupEntry.resource, name, metadata=metadata, spec=spec, status=status)


def namespace(**metadata: Any) -> Object:
    return an_object(NAMESPACE, TECHNICAL_ID, metadata=metadata)


def secret(name: str, namespace: str = TECHNICAL_ID) -> Object:
    return an_object(SECRET, name, namespace)


def of(outcome: Outcome) -> str:
    return outcome.reason if isinstance(outcome, Wait) else type(outcome).__name__


async def test_foreign_entry_is_migrated_and_not_deleted() -> None:
    elsewhere = entry(seed="b")
    steps = [
        (in_seed(), "BackupEntryMigrating", ["migrate BackupEntry " + ENTRY]),
        (in_seed("Migrate Processing", "migrate"), "BackupEntryMigrating", []),
        (in_seed("Migrate Succeeded", "migrate"), "BackupEntryMigrating", []),  # of an earlier move
        (in_seed("Migrate Error", "migrate"), "BackupEntryMigrating", []),
        (in_seed("Migrate Succeeded"), "Deleting", ["delete BackupEntry " + ENTRY]),
        (in_seed("Migrate Succeeded", **DELETED), "Deleting", []),
    ]
    for live, reason, asked in steps:
        world = World(elsewhere, live)
        assert of(await world.entry()) == reason
        assert (world.seed.log, world.garden.log) == (asked, [])


async def test_foreign_entry_stays_with_the_namespace() -> None:
    """An agent there has a final snapshot to store, with these credentials."""
    world = World(entry(seed="b"), in_seed(), namespace())
    assert of(await world.entry()) == "NamespaceNotDeleted"
    assert world.seed.log == []


@pytest.mark.parametrize(("name", "deletes"), [(ENTRY, ["confirm", "delete"]), (SOURCE, ["migrate"])])
async def test_deleted_entry_keeps_data_of_source_seed(name: str, deletes: list[str]) -> None:
    world = World(entry(name, **DELETED), in_seed(name=name), namespace())
    assert isinstance(await world.entry(name), Wait)
    assert world.seed.log == [f"{verb} BackupEntry {name}" for verb in deletes]
    assert world.garden.log == [], "it is held as long as anything is in the seed"
    world = World(entry(name, **DELETED), secret(f"entry-{name}", GARDEN_NAMESPACE))
    assert isinstance(await world.entry(name), Done)
    assert world.seed.log == [f"delete Secret entry-{name}"], "the seed keeps no credentials"
    assert world.garden.log == [f"removed the finalizer of BackupEntry {name}"]


async def test_data_of_entry_deleted_in_garden_stay() -> None:
    """Gone past its finalizer: nobody can say whether they were to be deleted."""
    world = World(in_seed())
    assert of(await world.entry(namespace="")) == "BackupEntryMigrating"
    assert world.seed.log == [f"migrate BackupEntry {ENTRY}"]


async def test_extension_is_not_matched_by_its_name_alone() -> None:
    """It has no namespace, and the entry has one."""
    world = World(entry(), in_seed())
    assert isinstance(await world.entry(namespace=""), Done)
    assert world.seed.log == []


@pytest.mark.parametrize(
    ("value", "reason"),
    [((), "BucketMissing"), ((bucket("Error"),), "BucketNotReady"), ((bucket("Processing"),), "BucketNotReady")],
)
async def test_entry_tells_what_it_waits_for_and_is_held(value: tuple[Object, ...], reason: str) -> None:
    world = World(entry(), *value)
    assert of(await world.entry()) == reason
    assert BUCKET in world.garden.written["lastError"]["description"]
    assert world.garden.log == [f"hold BackupEntry {ENTRY}"]
    assert world.seed.log == []


async def test_missing_rights_are_awaited_shortly() -> None:
    world = World(entry(), bucket())
    world.garden.refuses = True
    outcome = await world.entry()
    assert isinstance(outcome, Wait)
    assert (outcome.reason, outcome.after) == ("RightsMissing", buckets.RIGHTS_SOON)


@pytest.mark.parametrize(("provider", "given"), [("local", {"url": URL}), ("other", {"url": URL, "more": 1})])
async def test_entry_gets_place_and_credentials(provider: str, given: Tree) -> None:
    world = World(entry(), bucket(provider=provider), namespace(), *map(secret, SECRETS))
    assert of(await world.entry()) == "Done"
    copied, made = world.seed.applied
    assert copied["data"] == {"account": "YQ=="}
    assert made["spec"]["backupBucketProviderStatus"] == given
    assert made["spec"]["secretRef"] == {"name": f"entry-{ENTRY}", "namespace": GARDEN_NAMESPACE}
    assert world.seed.log[-1] == f"apply, to reconcile BackupEntry {ENTRY}"


@pytest.mark.parametrize(
    ("live", "there", "order"),
    [
        ("Create Succeeded", (namespace(), *map(secret, SECRETS)), ""),
        ("Create Succeeded", (), ""),
        ("Create Succeeded", (namespace(), secret(names.SOURCE_BACKUP_SECRET)), "reconcile"),
        ("Create Succeeded reconcile", (namespace(),), ""),
        ("Create Processing", (namespace(),), ""),
        ("Create Succeeded", (namespace(**DELETED),), ""),
        ("Migrate Succeeded", (namespace(), *map(secret, SECRETS)), "restore"),
    ],
    ids=["settled", "no namespace", "Secret lost", "ordered already", "at work", "namespace goes", "it comes back"],
)
async def test_extension_gets_an_order_only_if_needed(live: str, there: tuple[Object, ...], order: str) -> None:
    first = World(entry(), bucket(), *there)
    await first.entry()
    rendered = first.seed.applied[-1]
    del rendered["metadata"]["annotations"][metadata_keys.OPERATION]
    kind, state, *ordered = live.split()
    rendered["metadata"]["annotations"].update((metadata_keys.OPERATION, item) for item in ordered)
    status = {"lastOperation": {"type": kind, "state": state}}
    settled = Object(encode_json({**rendered, "status": status}))
    world = World(entry(), bucket(), settled, *there)
    assert of(await world.entry()) == "Done"
    orders = [entry_log for entry_log in world.seed.log if "BackupEntry" in entry_log]
    assert orders == ([f"apply, to {order} BackupEntry {ENTRY}"] if order else [])


async def test_unchanged_credentials_are_not_rewritten() -> None:
    first = World(entry(), bucket())
    await first.entry()
    assert first.seed.log[:2] == ["create Namespace garden", f"apply Secret entry-{ENTRY}"]
    copied, made = (Object(encode_json(body)) for body in first.seed.applied)
    world = World(entry(), bucket(), copied, made, an_object(NAMESPACE, GARDEN_NAMESPACE))
    await world.entry()
    assert world.seed.log == []
    stale = Object(encode_json({**copied.tree, "data": {"account": "Yg=="}}))
    world = World(entry(), bucket(), stale, made, an_object(NAMESPACE, GARDEN_NAMESPACE))
    await world.entry()
    assert world.seed.log == [f"apply Secret entry-{ENTRY}"]


async def test_the_secret_of_a_source_entry_is_another_one() -> None:
    world = World(entry(SOURCE), bucket(), namespace(), secret(names.BACKUP_SECRET))
    assert world.backups._is_secret_missing(SOURCE)
    assert not world.backups._is_secret_missing(ENTRY)


async def test_objects_in_seed_lead_back_to_backup_entry() -> None:
    backups = World(entry()).backups
    assert backups._entry_of(in_seed()) == [Key("", ENTRY), Key("garden-dev", ENTRY)]
    assert backups._entries_of_secret(secret(names.BACKUP_SECRET)) == [Key("garden-dev", ENTRY)]
    assert backups._entries_of_secret(secret("other")) == []
    assert World().backups._entry_of(in_seed()) == [Key("", ENTRY)]


async def test_deleted_extension_is_recreated_afterwards() -> None:
    """If nobody has confirmed its deletion, the backups behind it stay: it is released before."""
    confirmed: dict[str, Any] = {"annotations": {metadata_keys.CONFIRM_DELETION: "true"}}
    unconfirmed: dict[str, Any] = {}
    for metadata, log in ((confirmed, []), (unconfirmed, [f"migrate BackupEntry {ENTRY}"])):
        world = World(entry(), bucket(), in_seed(**DELETED, **metadata), namespace())
        assert of(await world.entry()) == "Deleting"
        assert [line for line in world.seed.log if "BackupEntry" in line] == log


@pytest.mark.parametrize(
    ("last", "order", "state"),
    [
        ("Create Succeeded", "", "Succeeded"),
        ("Create Succeeded", "restore", "Processing"),
        ("Create Error", "", "Processing"),
    ],
)
async def test_entry_is_ready_once_its_extension_rests(last: str, order: str, state: str) -> None:
    world = World()
    resource = in_seed(last, order).decode(extension_backups.BackupEntry)
    await world.backups._report(BackupEntry.resource, entry(), resource, requested=order)
    assert world.garden.written["lastOperation"]["state"] == state
    assert world.garden.written["seedName"] == "a"


async def test_silence_of_an_extension_is_told() -> None:
    world = World()
    kind = extension_backups.BackupBucket
    untouched = an_object(kind.resource, BUCKET, spec={"type": "local"}, status={}).decode(kind)
    await world.backups._report(BackupBucket.resource, bucket(""), untouched, requested="reconcile")
    text = "no extension of type local has acted on it in seed a: check if it runs"
    assert world.garden.written["lastOperation"]["description"] == text
    silent = bucket("Processing")
    silent = Object(encode_json({**silent.tree, "status": world.garden.written}))
    world = World(entry(), silent, namespace())
    assert of(await world.entry()) == "BucketNotReady"
    assert world.garden.written["lastError"]["description"] == f"BackupBucket {BUCKET} is not ready yet: {text}"


async def test_bucket_says_where_it_is_as_its_extension_says() -> None:
    world = World()
    kind = extension_backups.BackupBucket
    status = {"lastOperation": {"type": "Create", "state": "Succeeded"}, "providerStatus": {"url": URL}}
    resource = an_object(kind.resource, BUCKET, spec={"type": "local"}, status=status).decode(kind)
    await world.backups._report(BackupBucket.resource, bucket("Processing"), resource, requested="")
    assert world.garden.written["providerStatus"] == {"url": URL}
    world.garden.conflicts = True
    assert of(await world.backups._report(BackupBucket.resource, bucket(), resource, requested="")) == "PlanOutdated"


async def test_a_changed_bucket_is_not_passed_on() -> None:
    """Its extension reports the location again, and the garden keeps what it has."""
    world = World(seed(), bucket())
    await world.backups._reconcile_bucket(Key("", BUCKET))
    (body,) = [body for body in world.seed.applied if body["kind"] == "BackupBucket"]
    del body["metadata"]["annotations"][metadata_keys.OPERATION]
    status = {"lastOperation": {"type": "Create", "state": "Succeeded"}, "providerStatus": {"url": URL}}
    digests = results.digests_of(Object(encode_json({**body, "status": status})), ["providerStatus"])
    body["metadata"]["annotations"][metadata_keys.RESULT_DIGESTS] = digests
    for url, reason in ((URL, "CredentialsCheckScheduled"), ("s3://other", "ResultsChanged")):
        live = Object(encode_json({**body, "status": {**status, "providerStatus": {"url": url}}}))
        world = World(seed(), bucket(), live)
        assert of(await world.backups._reconcile_bucket(Key("", BUCKET))) == reason
        assert world.garden.written["providerStatus"]["url"] == URL
    description = world.garden.written["lastError"]["description"]
    assert description.startswith(f"BackupBucket {BUCKET}: status.providerStatus: found")
    command = f"kubectl annotate backupbucket.extensions.gardener.cloud {BUCKET} --overwrite"
    assert description.endswith(f"{command} {metadata_keys.OPERATION}=reconcile")


def seed(name: str = "a", **backup: Any) -> Object:
    backup = {"provider": "local", "region": "here", **backup}
    spec = {"provider": {"type": "local"}, "backup": backup}
    return an_object(Seed.resource, name, metadata={"uid": f"uid-of-{name}"}, spec=spec)


async def test_gardenlet_makes_the_bucket_of_its_seed_only() -> None:
    world = World(seed(), seed("b"))
    assert isinstance(await world.backups._reconcile_bucket(Key("", names.bucket("uid-of-b"))), Done)
    assert (world.garden.log, world.seed.log) == ([], [])
    await world.backups._reconcile_bucket(Key("", BUCKET))
    assert world.garden.log == [f"create BackupBucket {BUCKET}"]
    assert world.seed.log == [f"apply, to reconcile BackupBucket {BUCKET}"]


async def test_bucket_names_its_missing_secret_and_retries() -> None:
    """Nobody wakes it: seeds may read Secrets of the garden by name, and watch none."""
    world = World(seed(), bucket("Processing"))
    world.garden.lacks_secrets = True
    outcome = await world.backups._reconcile_bucket(Key("", BUCKET))
    assert isinstance(outcome, Wait)
    assert (outcome.reason, outcome.after) == ("CredentialsMissing", buckets.SOON)
    status = world.garden.written
    assert status["lastOperation"]["state"] == "Pending"
    assert status["lastOperation"]["lastUpdateTime"] == "2026-01-01T00:00:00Z"
    missing = "Secret garden/backup-a of the garden, which gives access to it, does not exist; create it"
    assert status["lastError"]["description"] == status["lastOperation"]["description"] == missing
    assert status["providerStatus"] == {"url": URL, "more": 1}, "what is known of it stays"
    assert world.seed.log == []


@pytest.mark.parametrize(
    ("lacking", "problem"),
    [("lacks_secrets", "does not exist; create it"), ("has_empty_secrets", "is empty; write the credentials into it")],
)
async def test_secret_without_credentials_gives_none(lacking: str, problem: str) -> None:
    """An agent without credentials would take no backups, and its seed's copy of them may be good still."""
    world = World(entry(), bucket())
    setattr(world.garden, lacking, True)
    outcome = await world.entry()
    assert isinstance(outcome, Wait)
    assert (outcome.reason, outcome.after) == ("CredentialsMissing", buckets.SOON)
    where = f"BackupBucket {BUCKET}: Secret garden/backup-a of the garden, which gives access to it"
    assert outcome.message == world.garden.written["lastError"]["description"] == f"{where}, {problem}"
    assert world.seed.log == []


async def test_time_of_an_operation_changes_with_it_alone() -> None:
    """A settled object is not written."""
    kind = extension_backups.BackupBucket

    async def told(before: Object, state: str, later: timedelta, **more: Any) -> Object:
        world = World()
        world.now = NOW + later
        status = {"lastOperation": {"type": "Create", "state": state}, "providerStatus": {"url": URL}, **more}
        resource = an_object(kind.resource, BUCKET, spec={"type": "local"}, status=status).decode(kind)
        await world.backups._report(BackupBucket.resource, before, resource, requested="")
        return Object(encode_json({**before.tree, "status": world.garden.written}))

    hour = timedelta(hours=1)
    error = {"lastError": {"description": "no quota", "lastUpdateTime": "2026-01-01T05:00:00Z"}}
    again = {"lastError": {"description": "no quota", "lastUpdateTime": "2026-01-01T06:00:00Z"}}
    failed = await told(bucket("Processing"), "Error", hour, **error)
    assert failed.tree["status"]["lastOperation"]["lastUpdateTime"] == "2026-01-01T01:00:00Z"
    assert failed.tree["status"]["lastError"]["lastUpdateTime"] == "2026-01-01T01:00:00Z"
    assert (await told(failed, "Error", 2 * hour, **again)).tree == failed.tree, "a retry is no news"
    ready = await told(failed, "Succeeded", 3 * hour)
    assert ready.tree["status"]["lastOperation"]["lastUpdateTime"] == "2026-01-01T03:00:00Z"
    assert "lastError" not in ready.tree["status"]
    assert (await told(ready, "Succeeded", 4 * hour)).tree == ready.tree


async def test_an_entry_that_waits_keeps_the_time_since_when() -> None:
    async def waiting(before: Object, later: timedelta) -> Object:
        world = World(before)
        world.now = NOW + later
        assert of(await world.entry()) == "BucketMissing"
        return Object(encode_json({**before.tree, "status": world.garden.written}))

    once = await waiting(entry(), timedelta())
    assert once.tree["status"]["lastOperation"]["lastUpdateTime"] == "2026-01-01T00:00:00Z"
    assert (await waiting(once, timedelta(hours=1))).tree == once.tree


@pytest.mark.parametrize("named", ["credentialsRef", "secretRef"])
async def test_bucket_follows_seed_that_names_another_secret(named: str) -> None:
    """Admission lets credentials be renewed under another name; the former Secret may be gone by then."""
    first, second = ({"kind": "Secret", "name": name, "namespace": "garden"} for name in ("backup-a", "backup-new"))
    spec = {"provider": {"type": "local", "region": "here"}, "seedName": "a", named: first}
    made = an_object(BackupBucket.resource, BUCKET, spec=spec)
    world = World(seed(credentialsRef=first), made)
    await world.backups._reconcile_bucket(Key("", BUCKET))
    assert world.garden.log == []
    world = World(seed(credentialsRef=second), made)
    await world.backups._reconcile_bucket(Key("", BUCKET))
    assert world.garden.log == [f"correct BackupBucket {BUCKET}"]
    assert world.garden.read == ["backup-new"] * 2, "to see that it is there, and to copy it"
