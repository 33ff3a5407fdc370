"""BackupEntries and ShootStates."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from espalier.api.gardener import ownership
from espalier.api.gardener.garden.backups import (
    BackupBucket,
    BackupBucketSpec,
    BackupEntry,
    BackupEntrySpec,
    BucketProvider,
)
from espalier.api.gardener.garden.seed import (
    GARDENLET_READY,
    SHOOTS_REMOVED,
    CredentialsReference,
    Seed,
    SeedBackup,
    SeedNetworks,
    SeedProvider,
    SeedSpec,
    SeedStatus,
)
from espalier.api.gardener.garden.shoot import Provider, Shoot, ShootSpec, ShootStatus
from espalier.api.gardener.garden.shoot_state import (
    ExtensionState,
    GardenletState,
    PersistedSecret,
    ShootState,
    StateReference,
)
from espalier.api.gardener.ownership import Ownership
from espalier.api.gardener.vocabulary.operations import Condition, LastOperation
from espalier.api.meta import ObjectMeta, OwnerReference
from espalier.kube.transports.wire import User
from espalier.shoots.admission import backup_buckets, backup_entries, messages, seed_objects, shoot_states
from espalier.shoots.bucket_providers import BucketCapabilities

DECLARED = BucketCapabilities(uses_bucket_config=True)
PROVIDERS = {"local": DECLARED}
ENTRY, SOURCE = "shoot--core--x--1", "source-shoot--core--x--1"


def shoot(operation: str = "Restore", state: str = "Processing", owned: Ownership | None = None) -> Shoot:
    owned = owned if owned is not None else Ownership().add("a", "x").start(1, "a").add("b", "y")
    return Shoot(
        metadata=ObjectMeta(name="x", annotations={"espalier.gardener.cloud/ownership": owned.render()}),
        spec=ShootSpec(provider=Provider(type="local"), seed_name="b"),
        status=ShootStatus(
            seed_name="b", technical_id="shoot--core--x", uid="1", last_operation=LastOperation(operation, state)
        ),
    )


def entry(name: str = ENTRY, bucket: str = "x", seed: str | None = "b") -> BackupEntry:
    return BackupEntry(metadata=ObjectMeta(name=name), spec=BackupEntrySpec(bucket_name=bucket, seed_name=seed))


def judged(new: BackupEntry, old: BackupEntry | None = None, *shoots: Shoot) -> list[str]:
    return [violation.message for violation in backup_entries.violations(old, new, shoots or (shoot(),))]


def test_an_entry_is_of_a_shoot_of_its_namespace() -> None:
    assert judged(entry(bucket="y")) == []
    assert judged(entry("shoot--core--x--2")) == [messages.ENTRY_NAME]
    assert judged(entry("source-shoot--core--y--1")) == [messages.ENTRY_NAME]


def test_entry_of_the_newest_epoch_opens_one_bucket() -> None:
    """The garden gives the credentials of its bucket to its seed."""
    assert judged(entry(bucket="x")) == [messages.ENTRY_OF_EPOCH]
    assert judged(entry(bucket="y", seed="c")) == [messages.ENTRY_OF_EPOCH]
    assert judged(entry(bucket="y"), None, shoot(owned=Ownership())) == [messages.ENTRY_OF_EPOCH]


@pytest.mark.demand("G48")
def test_bucket_of_entry_changes_to_newest_epoch_only() -> None:
    assert judged(entry(bucket="y"), entry()) == []
    assert judged(entry(bucket="y"), entry(bucket="y", seed=None)) == []
    assert judged(entry(bucket="y", seed="c"), entry()) == [messages.ENTRY_BUCKET_STAYS]
    assert judged(entry(bucket="z"), entry()) == [messages.ENTRY_BUCKET_STAYS]


def test_seed_takes_no_entry_in_a_foreign_bucket() -> None:
    """The garden would give it the credentials of that bucket for as long as the entry is there, renewed ones too."""
    assert judged(entry(seed="b"), entry(seed="a")) == [messages.ENTRY_SEED_STAYS]
    assert judged(entry(seed="c"), entry(seed="a")) == [messages.ENTRY_SEED_STAYS]
    assert judged(entry(SOURCE), entry(SOURCE, seed="a")) == []
    assert judged(entry(SOURCE, seed="c"), entry(SOURCE)) == [messages.SOURCE_SEED]


def test_entry_is_held_while_its_shoot_stays() -> None:
    going = shoot()
    going.metadata.deletion_timestamp = "2026-01-01T00:00:00Z"
    assert backup_entries.is_in_use(ENTRY, [shoot()])
    assert not backup_entries.is_in_use(ENTRY, [going])
    assert not backup_entries.is_in_use(ENTRY, [])
    assert not backup_entries.is_in_use(SOURCE, [shoot()])


SEED = Seed(
    metadata=ObjectMeta(name="b", uid="y"),
    spec=SeedSpec(
        provider=SeedProvider(type="local"),
        backup=SeedBackup(provider="local", credentials_ref=CredentialsReference(namespace="garden", name="bucket")),
    ),
)
GARDENLET = User("gardener.cloud:system:seed:b", ("gardener.cloud:system:seeds",))


def bucket_refused(
    user: User, name: str = "y", seed: str = "b", secret: str = "bucket", provider: str = "local", region: str = ""
) -> list[str]:
    reference = CredentialsReference(namespace="garden", name=secret)
    spec = BackupBucketSpec(
        provider=BucketProvider(type=provider, region=region), seed_name=seed, credentials_ref=reference
    )
    new = BackupBucket(metadata=ObjectMeta(name=name), spec=spec)
    return [violation.field for violation in backup_buckets.violations(None, new, user, SEED)]


def test_gardenlet_chooses_no_secret_to_read() -> None:
    assert bucket_refused(GARDENLET) == []
    assert bucket_refused(GARDENLET, secret="of-others") == ["spec.credentialsRef"]
    assert bucket_refused(GARDENLET, name="x") == ["metadata.name"]
    assert bucket_refused(GARDENLET, seed="a") == ["spec.seedName"]
    assert bucket_refused(GARDENLET, provider="another") == ["spec.provider.type"]
    assert bucket_refused(GARDENLET, region="inside.example/") == ["spec.provider.region"]
    assert bucket_refused(User("admin", ("system:masters",)), name="x", secret="of-others") == []


def test_a_bucket_is_never_given_to_another_seed() -> None:
    """The garden would let that one read its credentials."""
    admin = User("admin", ("system:masters",))

    def of(seed: str | None) -> BackupBucket:
        spec = BackupBucketSpec(provider=BucketProvider(type="local"), seed_name=seed)
        return BackupBucket(metadata=ObjectMeta(name="y"), spec=spec)

    def refused(old: str | None, new: str | None) -> list[str]:
        return [violation.message for violation in backup_buckets.violations(of(old), of(new), admin, None)]

    assert refused("a", "b") == refused("a", None) == [messages.SEED_OF_BUCKET]
    assert refused("a", "a") == refused(None, "a") == []


def a_seed(networks: SeedNetworks | None = None, kind: str = "Secret", type: str = "local", **backup: Any) -> Seed:
    reference = CredentialsReference(name="s", namespace="garden", kind=kind)
    config = msgspec.Raw(msgspec.json.encode({"url": "s3://{bucket}", **backup.pop("config", {})}))
    given = SeedBackup(**{"provider": "local", "credentials_ref": reference, "provider_config": config, **backup})
    return Seed(
        metadata=ObjectMeta(name="a"), spec=SeedSpec(provider=SeedProvider(type=type), backup=given, networks=networks)
    )


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        (a_seed(SeedNetworks(pods="10.4")), "networks.pods"),
        (a_seed(kind="Sekret"), "backup.credentialsRef.kind"),
        (a_seed(config={"url": "fil://{bucket}"}), "backup.providerConfig.url"),
        (a_seed(config={"url": 5}), "backup.providerConfig"),
        (a_seed(config={"endpoint": "htp:/x y"}), "backup.providerConfig.endpoint"),
    ],
)
def test_seed_without_a_usable_store_is_refused(wrong: Seed, field: str) -> None:
    for old in (None, a_seed()):
        assert [violation.field for violation in seed_objects.violations(old, wrong, PROVIDERS, has_shoots=False)] == [
            f"spec.{field}"
        ]
    assert list(seed_objects.violations(wrong, wrong, PROVIDERS, has_shoots=True)) == [], "it was stored before"
    assert (
        list(seed_objects.violations(None, a_seed(SeedNetworks(pods="10.4.0.0/16")), PROVIDERS, has_shoots=False)) == []
    )


def test_a_store_is_reviewed_for_declared_providers() -> None:
    for type in ("local", "acme"):
        new = a_seed(provider=type, config={"url": 5})
        fields = [
            violation.field for violation in seed_objects.violations(None, new, {type: DECLARED}, has_shoots=False)
        ]
        assert fields == ["spec.backup.providerConfig"]
        assert list(seed_objects.violations(None, new, {}, has_shoots=False)) == []


def test_place_of_backups_stays_while_shoots_exist() -> None:
    def changed(new: Seed, *, has_shoots: bool = True) -> list[str]:
        return [
            violation.field for violation in seed_objects.violations(a_seed(), new, PROVIDERS, has_shoots=has_shoots)
        ]

    without = a_seed()
    without.spec.backup = None
    moved = {
        "spec.provider.type": a_seed(type="other"),
        "spec.backup": without,
        "spec.backup.provider": a_seed(provider="other"),
        "spec.backup.providerConfig.url": a_seed(config={"url": "s3://other-{bucket}"}),
    }
    for field, new in moved.items():
        assert changed(new) == [field]
        assert changed(new, has_shoots=False) == []
    other = CredentialsReference(name="new", namespace="garden")
    assert changed(a_seed(credentials_ref=other, config={"endpoint": "https://s3.example"})) == []


def test_bucket_is_held_while_shoot_needs_its_backups() -> None:
    """If its seed is dead, nobody makes it again."""
    restored = [shoot(owned=Ownership().add("a", "x").start(1, "a").add("b", "y"))]
    assert backup_buckets.is_in_use("x", restored)
    assert backup_buckets.is_in_use("y", restored)
    assert not backup_buckets.is_in_use("x", [shoot(owned=Ownership().add("a", "x").add("b", "y").start(2, "b"))])
    assert not backup_buckets.is_in_use("z", restored)
    unreadable = shoot()
    unreadable.metadata.annotations = {"espalier.gardener.cloud/ownership": "nonsense"}
    assert backup_buckets.is_in_use("z", [unreadable])  # it may be in any


def test_gardenlet_makes_no_foreign_shoot_state() -> None:
    """It would choose the keys that the other one deploys."""

    def refused(user: User, value: Shoot | None, uid: str = "1") -> list[str]:
        owner = OwnerReference(api_version="core.gardener.cloud/v1beta1", kind="Shoot", name="x", uid=uid)
        return [violation.message for violation in shoot_states.made_by_another_seed(state([owner]), value, user)]

    own, theirs = shoot(), shoot(owned=Ownership().add("a", "x"))
    own.metadata.uid = theirs.metadata.uid = "1"
    assert refused(GARDENLET, own) == []
    assert refused(GARDENLET, theirs) == [messages.STATE_OF_OTHER_SEED]
    assert refused(GARDENLET, own, uid="2") == [messages.STATE_OF_OTHER_SEED]
    assert refused(GARDENLET, None) == [messages.STATE_OF_OTHER_SEED]


@pytest.mark.demand("G61")
def test_source_entry_is_there_while_shoot_is_restored() -> None:
    assert judged(entry(SOURCE)) == []
    assert judged(entry(SOURCE), None, shoot("Reconcile", "Succeeded")) == []  # epochs decide, not its status
    assert judged(entry(SOURCE), None, shoot(owned=Ownership().add("b", "y"))) == [messages.SOURCE_NOT_NEEDED]
    begun = Ownership().add("a", "x").start(1, "a").add("b", "y").start(2, "b")
    assert judged(entry(SOURCE), None, shoot(owned=begun)) == [messages.SOURCE_NOT_NEEDED]  # whatever its seed says


@pytest.mark.demand("G47")
def test_source_entry_names_bucket_and_seed() -> None:
    """Not the bucket of an epoch in between that never started."""
    assert judged(entry(SOURCE, "y", "a")) == [messages.SOURCE_BUCKET, messages.SOURCE_SEED]
    owned = Ownership().add("a", "x").start(1, "a").add("c", "z").add("b", "y")
    assert judged(entry(SOURCE), None, shoot(owned=owned)) == []
    assert judged(entry(SOURCE, "z"), None, shoot(owned=owned)) == [messages.SOURCE_BUCKET]


def test_unreadable_epochs_allow_no_source_entry() -> None:
    broken = shoot()
    broken.metadata.annotations = {"espalier.gardener.cloud/ownership": "nonsense"}
    with pytest.raises(ownership.OwnershipError):
        ownership.parse("nonsense")
    (message,) = judged(entry(SOURCE), None, broken)
    assert "these are not valid epochs" in message


OWNER = OwnerReference(api_version="core.gardener.cloud/v1beta1", kind="Shoot", name="x", uid="1", controller=True)


def state(owners: list[OwnerReference] | None = None, **parts: Any) -> ShootState:
    return ShootState(
        metadata=ObjectMeta(name="x", owner_references=owners if owners is not None else [OWNER]), **parts
    )


def wrong(shoot_state: ShootState) -> list[tuple[str, str]]:
    return [(violation.field, violation.message) for violation in shoot_states.violations(shoot_state)]


def test_the_shape_of_a_shoot_state() -> None:
    ca = PersistedSecret(name="ca", data={"ca.crt": "Yw=="})
    two = [
        ExtensionState(kind="ControlPlane", purpose="normal", state=msgspec.Raw(b"1")),
        ExtensionState(kind="ControlPlane", purpose="exposure"),
    ]
    assert wrong(state(gardenlet=GardenletState(secrets=[ca]), extensions=two)) == []
    assert wrong(state(gardenlet=GardenletState(secrets=[ca, ca]))) == [("gardenlet.secrets[1].name", messages.TWICE)]
    assert wrong(state(extensions=[two[0], two[0]])) == [("extensions[1]", messages.TWICE)]
    assert wrong(state([])) == [("metadata.ownerReferences", messages.STATE_OF_NO_SHOOT)]


@pytest.mark.demand("G18")
def test_no_value_of_a_secret_is_ever_told() -> None:
    secret = PersistedSecret(name="ca", data={"ca.key": "a secret!"})
    (violation,) = shoot_states.violations(state(gardenlet=GardenletState(secrets=[secret])))
    assert violation.field == "gardenlet.secrets[0].data[ca.key]"
    assert "a secret" not in str(violation)


def test_state_is_here_or_in_secrets() -> None:
    both = ExtensionState(
        kind="Worker", state=msgspec.Raw(b"1"), state_ref=StateReference(secrets=[], size=0, sha256="")
    )
    assert wrong(state(extensions=[both])) == [("extensions[0].stateRef", messages.STATE_AND_REFERENCE)]


def left_in(seed: Seed, *shoots: Shoot) -> str:
    """The beginning of the refusal to delete a seed."""
    return seed_objects.remains(seed, shoots).partition(". Only its gardenlet")[0]


def emptied(*, left: str = "", is_silent: bool = False, is_confirmed: bool = False) -> Seed:
    conditions = [Condition(SHOOTS_REMOVED, "False" if left else "True", "Reason", left)]
    conditions += [Condition(GARDENLET_READY, "Unknown", "Silent", "")] if is_silent else []
    marks = {"confirmation.gardener.cloud/deletion": "true"} if is_confirmed else {}
    spec = SeedSpec(
        provider=SeedProvider(type="local"), networks=SeedNetworks(pods="10.0.0.0/16", services="10.1.0.0/16")
    )
    return Seed(metadata=ObjectMeta(name="a", annotations=marks), spec=spec, status=SeedStatus(conditions=conditions))


def test_seed_goes_after_remains_or_with_consent() -> None:
    moved, refused = shoot(), "Seed a can't be deleted: "
    assert left_in(emptied(), moved) == ""
    assert left_in(emptied(left="it has x"), moved) == f"{refused}it has x"
    assert left_in(emptied(left="it has x", is_confirmed=True), moved) == ""
    silent = "its gardenlet is silent, and may not have removed what shoots /x left"
    assert left_in(emptied(is_silent=True), moved) == f"{refused}{silent}"
    assert left_in(emptied(is_silent=True, is_confirmed=True), moved) == ""


def test_silent_seed_keeps_nothing_of_strangers() -> None:
    never_started = Ownership().add("a", "x").add("b", "y")
    only_here = Ownership().add("a", "x").start(1, "a")
    for owned in (never_started, only_here, Ownership()):
        assert left_in(emptied(is_silent=True), shoot(owned=owned)) == "", owned
