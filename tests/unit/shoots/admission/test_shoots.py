"""When a shoot may move, told as writes of it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from espalier.api.gardener.garden.cloud_profile import (
    CloudProfile,
    CloudProfileSpec,
    OfferedKubernetes,
    OfferedVersion,
)
from espalier.api.gardener.garden.seed import (
    Seed,
    SeedBackup,
    SeedNetworks,
    SeedProvider,
    SeedSpec,
    SeedStatus,
    SeedTaint,
)
from espalier.api.gardener.garden.shoot import SeedSelector, Shoot
from espalier.api.gardener.ownership import Ownership
from espalier.api.gardener.vocabulary.operations import Condition
from espalier.api.meta import ObjectMeta, Tree
from espalier.kube.objects import Object
from espalier.kube.transports.wire import ADMIN, User
from espalier.shoots.admission import messages
from espalier.shoots.admission.shoot_rules.shoots import Garden, unmovable, violations

MEMBER = User("alice", ("system:authenticated",))
MOVER = User("bob", ("gardener.cloud:system:movers",))
SCHEDULER = User("system:serviceaccount:garden:scheduler", ("system:serviceaccounts:garden",))


def gardenlet(seed: str) -> User:
    return User(f"gardener.cloud:system:seed:{seed}", ("gardener.cloud:system:seeds",))


def seed(name: str, **changes: Any) -> Seed:
    metadata = ObjectMeta(name=name, deletion_timestamp=changes.pop("deleted", None), labels=changes.pop("labels", {}))
    status = SeedStatus(allocatable={"shoots": "3"}, conditions=changes.pop("conditions", []))
    spec = SeedSpec(provider=SeedProvider(type="local"), **{"backup": SeedBackup(provider="local"), **changes})
    return Seed(metadata=metadata, spec=spec, status=status)


LOST = [Condition(type="GardenletReady", status="Unknown")]
CHANGES: dict[str, dict[str, Any]] = {
    "a": {},
    "b": {},
    "c": {},
    "lost": {"conditions": LOST},
    "going": {"deleted": "2026-01-01T00:00:00Z"},
    "bare": {"backup": None},
    "tainted": {"taints": [SeedTaint(key="seed.gardener.cloud/protected")]},
    "overlapping": {"networks": SeedNetworks(pods="10.0.0.0/8")},
}
SEEDS = {name: seed(name, **changes) for name, changes in CHANGES.items()}
FULL = {"c": 3}
GARDEN = Garden(SEEDS.get, placed=lambda name: FULL.get(name, 0))


def shoot(
    wanted: str | None,
    current: str | None = None,
    operation: str = "Reconcile",
    state: str = "Succeeded",
    *,
    owned: Ownership | None = None,
    deleted: bool = False,
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> Object:
    metadata: Tree = {"name": "x", "namespace": "garden-core", "annotations": dict(annotations or {})}
    if owned is not None:
        metadata["annotations"]["espalier.gardener.cloud/ownership"] = owned.render()
    if deleted:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    tree: Tree = {
        "apiVersion": "core.gardener.cloud/v1beta1",
        "kind": "Shoot",
        "metadata": metadata,
        "spec": {"provider": {"type": "local"}, "networking": {"pods": "10.4.0.0/16"}, **spec},
        "status": {},
    }
    if wanted:
        tree["spec"]["seedName"] = wanted
    if current:
        tree["status"] = {"seedName": current, "lastOperation": {"type": operation, "state": state}}
    return Object(msgspec.json.encode(tree))


def refusals(old: Object | None, new: Object, user: User = ADMIN) -> list[tuple[str, str]]:
    return [(violation.field, violation.message) for violation in violations(old, new, user, GARDEN)]


def refused(message: str, field: str = "spec.seedName") -> list[tuple[str, str]]:
    return [(field, message)]


def moved(old: Object, to: str | None, **spec: Any) -> Object:
    tree = old.tree
    tree["spec"] = {**tree["spec"], **spec, "seedName": to}
    if to is None:
        del tree["spec"]["seedName"]
    return Object(msgspec.json.encode(tree))


def with_metadata(old: Object, metadata: Tree) -> Object:
    tree = old.tree
    return Object(msgspec.json.encode({**tree, "metadata": {**tree["metadata"], **metadata}}))


SETTLED = shoot("a", "a")


def test_a_settled_shoot_moves_to_another_seed() -> None:
    assert refusals(SETTLED, moved(SETTLED, "b")) == []


@pytest.mark.demand("G34")
def test_naming_the_seed_it_has_is_no_move() -> None:
    """G34."""
    assert refusals(SETTLED, moved(SETTLED, "a"), MEMBER) == []


@pytest.mark.parametrize(
    ("seed", "message"),
    [
        ("unknown", messages.NO_SUCH_SEED),
        ("going", messages.SEED_DELETED),
        ("bare", messages.SEED_WITHOUT_BACKUP),
        ("tainted", messages.NOT_TOLERATED),
        ("overlapping", messages.OVERLAPPING),
        ("c", messages.FULL),
    ],
)
def test_a_seed_that_can_not_have_the_shoot_is_refused(seed: str, message: str) -> None:
    assert refusals(SETTLED, moved(SETTLED, seed)) == refused(message)
    assert refusals(None, shoot(seed)) == refused(message)


@pytest.mark.demand("G35")
def test_seed_that_is_not_ready_is_no_reason_to_refuse() -> None:
    """G35: the move waits for it."""
    assert refusals(SETTLED, moved(SETTLED, "lost")) == []


def test_a_tolerated_taint_is_no_reason() -> None:
    tolerant = shoot("a", "a", tolerations=[{"key": "seed.gardener.cloud/protected"}])
    assert refusals(tolerant, moved(tolerant, "tainted")) == []


def test_a_shoot_can_not_leave_a_seed_without_backups() -> None:
    old = shoot("bare", "bare")
    assert refusals(old, moved(old, "b")) == refused(messages.SOURCE_WITHOUT_BACKUP)


def test_shoot_leaves_a_seed_that_is_gone() -> None:
    old = shoot("unknown", "unknown")
    assert refusals(old, moved(old, "b")) == []


@pytest.mark.demand("G33")
@pytest.mark.parametrize(
    "old", [shoot("a"), shoot("a", "a", "Create", "Processing"), shoot("a", "a", "Create", "Error")]
)
def test_a_shoot_whose_creation_is_not_finished_stays(old: Object) -> None:
    """G33."""
    assert refusals(old, moved(old, "b")) == refused(messages.NOT_CREATED)


def test_unheld_move_can_be_reverted_before_creation() -> None:
    """As `ReadyForMigration` advises with `MoveRefused`; once another epoch has begun, it can't."""
    old = shoot("b", "a", "Create", "Processing")
    assert refusals(old, moved(old, "a")) == []
    begun = shoot("b", "a", "Create", "Processing", owned=Ownership().add("a", "x").add("b", "y"))
    assert refusals(begun, moved(begun, "a")) == refused(messages.NOT_CREATED)


def test_a_shoot_that_is_deleted_stays() -> None:
    old = shoot("a", "a", deleted=True)
    assert refusals(old, moved(old, "b")) == refused(messages.DELETED)


def test_a_shoot_never_goes_back_to_no_seed() -> None:
    assert refusals(SETTLED, moved(SETTLED, None)) == refused(messages.SEED_STAYS_SET)


def test_moving_write_changes_the_seed_only() -> None:
    new = moved(SETTLED, "b", hibernation={"enabled": True})
    assert refusals(SETTLED, new) == refused(messages.ONLY_THE_SEED, "spec.hibernation")


def test_members_of_project_do_not_choose_another_seed() -> None:
    assert refusals(SETTLED, moved(SETTLED, "b"), MEMBER) == refused(messages.MAY_NOT_MOVE)
    both = refused(messages.SPEC_OF_GARDENLET, "spec") + refused(messages.MAY_NOT_MOVE)
    assert refusals(SETTLED, moved(SETTLED, "b"), gardenlet("a")) == both
    assert refusals(SETTLED, moved(SETTLED, "b"), MOVER) == []


def test_new_shoot_may_name_its_seed() -> None:
    assert refusals(None, shoot("a"), MEMBER) == []
    unplaced = shoot(None)
    assert refusals(unplaced, moved(unplaced, "a"), SCHEDULER) == []


MOVING = shoot("b", "a", "Migrate", "Processing")
WAITING = shoot("b", "a")
RESTORING = shoot("b", "b", "Restore", "Processing")


@pytest.mark.parametrize("old", [MOVING, RESTORING, shoot("b", "b", "Migrate", "Succeeded")])
@pytest.mark.parametrize("to", ["a", "c"])
def test_a_second_migration_waits_for_the_first(old: Object, to: str) -> None:
    assert refusals(old, moved(old, to)) == refused(messages.MOVING)


def test_move_that_has_not_begun_can_be_reverted() -> None:
    assert refusals(WAITING, moved(WAITING, "a")) == []
    assert refusals(WAITING, moved(WAITING, "lost")) == []


def test_move_that_has_begun_can_not_be_reverted() -> None:
    old = shoot("b", "a", owned=Ownership().add("a", "x").start(1, "a").add("b", "y"))
    assert refusals(old, moved(old, "a")) == refused(messages.MOVING)


def test_a_shoot_whose_destination_is_lost_moves_on() -> None:
    """A way out of every state."""
    restoring, moving = shoot("lost", "lost", "Restore", "Processing"), shoot("lost", "a", "Migrate", "Error")
    assert refusals(restoring, moved(restoring, "a")) == []
    assert refusals(moving, moved(moving, "b")) == []
    assert refusals(moving, moved(moving, "a")) == refused(messages.MOVING)  # what was stopped there is not begun anew


def test_deleted_shoot_leaves_a_lost_seed() -> None:
    for source, refusal in (("lost", []), ("a", refused(messages.DELETED))):
        old = shoot(source, source, "Delete", "Processing", deleted=True)
        assert refusals(old, moved(old, "b")) == refusal
    unplaced = shoot("lost", deleted=True)
    assert refusals(unplaced, moved(unplaced, "b")) == refused(messages.DELETED)


@pytest.mark.parametrize("old", [MOVING, WAITING, RESTORING])
def test_the_spec_is_frozen_while_a_shoot_moves(old: Object) -> None:
    new = moved(old, "b", hibernation={"enabled": True})
    assert refusals(old, new, MEMBER) == refused(messages.FROZEN, "spec.hibernation")
    assert refusals(old, new, ADMIN) == []  # operators can put right what keeps it from its end


def test_metadata_of_a_shoot_that_moves_can_be_written() -> None:
    tree = MOVING.tree
    tree["metadata"]["labels"] = {"a": "b"}
    assert refusals(MOVING, Object(msgspec.json.encode(tree)), MEMBER) == []


HA = {"highAvailability": {"failureTolerance": {"type": "zone"}}}


def test_failure_tolerance_is_added_and_then_stays() -> None:
    field = "spec.controlPlane.highAvailability.failureTolerance.type"
    plain, tolerant = shoot("a", "a"), shoot("a", "a", controlPlane=HA)
    other = shoot("a", "a", controlPlane={"highAvailability": {"failureTolerance": {"type": "node"}}})
    assert refusals(None, shoot("a", controlPlane=HA)) == []
    assert refusals(plain, tolerant) == []
    assert refusals(tolerant, moved(tolerant, "b")) == []
    assert refusals(tolerant, plain) == refused(messages.TOLERANCE_STAYS, field)
    assert refusals(tolerant, other) == refused(messages.TOLERANCE_STAYS, field)
    unknown = shoot("a", controlPlane={"highAvailability": {"failureTolerance": {"type": "planet"}}})
    assert refusals(None, unknown) == refused(messages.NO_TOLERANCE, field)


def annotated(key: str, value: str, owned: Ownership | None = None) -> Object:
    return shoot("a", "a", owned=owned, annotations={key: value})


ONE_EPOCH = Ownership().add("a", "x")


def test_our_annotations_are_not_written_by_people() -> None:
    new = annotated("espalier.gardener.cloud/other", "1")
    assert refusals(SETTLED, new, MEMBER) == refused(
        messages.NOT_YOURS, "metadata.annotations[espalier.gardener.cloud/other]"
    )
    assert refusals(new, SETTLED, MEMBER) != []
    assert refusals(None, shoot("a", owned=ONE_EPOCH), MEMBER) != []
    assert refusals(SETTLED, annotated("example.com/mine", "1"), MEMBER) == []


def test_user_without_the_right_gives_up_no_seed() -> None:
    key = "shoot.gardener.cloud/force-restore"
    forced = annotated(key, "true")
    expected = refused(messages.FORCED, f"metadata.annotations[{key}]")
    assert refusals(SETTLED, forced, MEMBER) == expected
    assert refusals(forced, SETTLED, MEMBER) == expected
    assert refusals(SETTLED, forced, gardenlet("a")) == expected
    assert refusals(SETTLED, forced, MOVER) == []
    assert refusals(forced, SETTLED, SCHEDULER) == []


PROFILE = CloudProfile(
    spec=CloudProfileSpec(
        type="local", kubernetes=OfferedKubernetes([OfferedVersion("1.34.0"), OfferedVersion("1.35.1")])
    )
)
BEGUN = shoot("a", "a", kubernetes={"version": "1.35.1"}, networking={"pods": "10.4.0.0/16", "services": "10.5.0.0/16"})


def of_spec(old: Object | None, annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, str]:
    """The refused fields of a write that sets these parts of the spec."""
    tree = (old or BEGUN).tree
    tree["spec"] |= spec
    tree["metadata"]["annotations"] = annotations or {}
    new = Object(msgspec.json.encode(tree))
    garden = Garden(SEEDS.get, lambda _name: PROFILE)
    return {violation.field: violation.message for violation in violations(old, new, ADMIN, garden)}


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("1.35.1", ""),
        ("1.3", messages.NO_VERSION),
        ("", messages.NO_VERSION),
        ("1.34.0", messages.DOWNGRADE),
        ("1.36.0", messages.NOT_OFFERED),
    ],
)
def test_shoot_gets_an_existing_and_later_version(version: str, message: str) -> None:
    field = {"spec.kubernetes.version": message} if message else {}
    assert of_spec(BEGUN, kubernetes={"version": version}) == field
    if message != messages.DOWNGRADE:
        assert of_spec(None, kubernetes={"version": version}) == (field if version else {})


def test_networks_of_shoot_stay_and_do_not_overlap() -> None:
    both = {"pods": "10.4.0.0/16", "services": "10.5.0.0/16"}
    for name in both:
        changed = {**both, name: "10.9.0.0/16"}
        assert of_spec(BEGUN, networking=changed) == {f"spec.networking.{name}": messages.NETWORK_STAYS}
    assert of_spec(BEGUN, networking={**both, "nodes": "10.9.0.0/16"}) == {}
    same = {"pods": "10.4.0.0/16", "services": "10.4.0.0/24"}
    assert of_spec(None, networking=same) == {"spec.networking.pods": messages.NETWORKS_OVERLAP}
    assert of_spec(None, networking={"pods": "10.4"}) == {"spec.networking.pods": messages.NO_RANGE}
    unscheduled = shoot(None, networking=same)
    assert of_spec(unscheduled, networking=both) == {}, "no seed has begun with it"
    assert of_spec(shoot("a", "a", networking=same), purpose="testing", networking=same) == {}, "it was stored before"


def test_worker_minimum_is_below_its_maximum() -> None:
    worker = {"name": "pool", "machine": {"type": "small"}, "minimum": 3, "maximum": 2}
    wrong = {"type": "local", "workers": [worker]}
    assert of_spec(BEGUN, provider=wrong) == {"spec.provider.workers[0].minimum": messages.MINIMUM}
    assert of_spec(BEGUN, provider={"type": "local", "workers": [{**worker, "maximum": 3}]}) == {}


@pytest.mark.parametrize(
    "order", ["reconcile", "retry", "maintain", "rotate-credentials-start", "force-in-place-update"]
)
def test_orders_of_gardener_are_accepted(order: str) -> None:
    assert of_spec(BEGUN, {"gardener.cloud/operation": order}) == {}


def test_an_order_that_nobody_knows_is_refused() -> None:
    for key, message in (
        ("gardener.cloud/operation", messages.NO_OPERATION),
        ("core.gardener.cloud/operation", messages.NO_OPERATION),
        ("shoot.gardener.cloud/force-restore", messages.NO_FORCE),
    ):
        assert of_spec(BEGUN, {key: "dance"}) == {f"metadata.annotations[{key}]": message}
        stored = with_metadata(BEGUN, {"annotations": {key: "dance"}})
        assert of_spec(stored, {key: "dance"}, purpose="testing") == {}, "it was stored before"


def test_gardenlet_does_not_change_what_users_ask_for() -> None:
    """The garden lets it read the Secret that the Shoot names."""
    other = shoot("a", "a", secretBindingName="of-others")
    assert refusals(SETTLED, other, gardenlet("a")) == refused(messages.SPEC_OF_GARDENLET, "spec")
    assert refusals(SETTLED, other, MEMBER) == []


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        ({"labels": {"of": "others"}}, "metadata.labels"),
        (
            {"ownerReferences": [{"apiVersion": "v1", "kind": "Secret", "name": "it", "uid": "1"}]},
            "metadata.ownerReferences",
        ),
        ({"finalizers": ["gardener", "of/others"]}, "metadata.finalizers"),
        ({"finalizers": []}, "metadata.finalizers"),
    ],
)
def test_gardenlet_leaves_foreign_metadata_alone(metadata: Tree, field: str) -> None:
    """A Shoot names a seed as its destination for as long as it likes: that seed's gardenlet may patch it meanwhile."""
    held = with_metadata(shoot("b", "a"), {"finalizers": ["gardener"]})
    message = messages.FINALIZERS_OF_GARDENLET if field == "metadata.finalizers" else messages.SPEC_OF_GARDENLET
    assert refusals(held, with_metadata(held, metadata), gardenlet("b")) == refused(message, field)
    assert refusals(held, with_metadata(held, metadata), MEMBER) == []


def test_finalizer_is_removed_by_its_gardenlet() -> None:
    held = with_metadata(shoot("b", "a"), {"finalizers": ["gardener"]})
    assert refusals(held, with_metadata(held, {"finalizers": []}), gardenlet("a")) == []
    new = shoot("a")
    assert refusals(new, with_metadata(new, {"finalizers": ["gardener"]}), gardenlet("a")) == []


FIELD = "metadata.annotations[espalier.gardener.cloud/ownership]"


def test_garden_adds_epochs_gardenlets_start_them() -> None:
    old, started = shoot("a", "a", owned=ONE_EPOCH), shoot("a", "a", owned=ONE_EPOCH.start(1, "a"))
    added = shoot("a", "a", owned=ONE_EPOCH.start(1, "a").add("b", "y"))
    assert refusals(SETTLED, old, SCHEDULER) == []
    assert refusals(old, started, gardenlet("a")) == []
    assert refusals(started, added, SCHEDULER) == []
    assert refusals(old, started, gardenlet("b")) == refused(messages.NOT_YOUR_EPOCH, FIELD)
    assert refusals(started, added, gardenlet("b")) == refused(messages.NOT_YOUR_EPOCH, FIELD)
    assert refusals(SETTLED, old, gardenlet("a")) == refused(messages.NOT_YOUR_EPOCH, FIELD)


@pytest.mark.parametrize("report", ["released-epoch", "restored-epoch"])
def test_gardenlet_reports_on_its_newest_epoch(report: str) -> None:
    """The next seed would not wait for the leases of extensions that may still act, or create what has no state."""

    def released(epoch: str | None, owned: Ownership) -> Object:
        marks = {f"espalier.gardener.cloud/{report}": epoch} if epoch else {}
        return shoot("b", "a", owned=owned, annotations=marks)

    field = f"metadata.annotations[espalier.gardener.cloud/{report}]"
    first, second = ONE_EPOCH.start(1, "a"), ONE_EPOCH.start(1, "a").add("b", "y")
    assert refusals(released(None, first), released("1", first), gardenlet("a")) == []
    for owned, epoch, seed in ((first, "1", "b"), (second, "1", "a"), (second, "1", "b"), (first, "2", "a")):
        write = released(None, owned), released(epoch, owned)
        assert refusals(*write, gardenlet(seed)) == refused(messages.NOT_YOUR_RELEASE, field)
        assert refusals(*write, SCHEDULER) == (
            refused(messages.NO_SUCH_EPOCH, field) if epoch == "2" and owned is first else []
        )
    assert refusals(released("1", first), released(None, first), gardenlet("a")) == refused(
        messages.NOT_YOUR_RELEASE, field
    )


@pytest.mark.parametrize("report", ["released-epoch", "restored-epoch"])
@pytest.mark.parametrize("epoch", ["", "x", "1.0", "-1", "\N{FULLWIDTH DIGIT ONE}", "9" * 20])
def test_garden_writes_numbers_of_epochs_alone(report: str, epoch: str) -> None:
    field, first = f"metadata.annotations[espalier.gardener.cloud/{report}]", ONE_EPOCH.start(1, "a")
    written = shoot("b", "a", owned=first, annotations={f"espalier.gardener.cloud/{report}": epoch})
    assert refusals(shoot("b", "a", owned=first), written, SCHEDULER) == refused(messages.NO_SUCH_EPOCH, field)


def test_epochs_do_not_go_back() -> None:
    two = ONE_EPOCH.start(1, "a").add("b", "y")
    old = shoot("b", "a", owned=two)
    for back in (ONE_EPOCH, ONE_EPOCH.start(1, "a"), ONE_EPOCH.add("b", "y"), Ownership(two.epochs[1:])):
        assert refusals(old, shoot("b", "a", owned=back), SCHEDULER) == refused(messages.EPOCHS_STAY, FIELD), back
    assert refusals(old, shoot("b", "a"), SCHEDULER) == refused(messages.EPOCHS_STAY, FIELD)
    (_, second), (_, other) = two.epochs, ONE_EPOCH.start(1, "a").add("c", "z").epochs
    later = shoot("b", "a", owned=Ownership((second,)))
    assert (
        refusals(later, shoot("b", "a", owned=Ownership((*ONE_EPOCH.epochs, second))), SCHEDULER) != []
    )  # it was over
    assert refusals(old, shoot("b", "a", owned=Ownership((two.epochs[0], other))), SCHEDULER) != []


def test_unreadable_epochs_are_repaired_by_the_garden() -> None:
    broken = annotated("espalier.gardener.cloud/ownership", "[broken")
    assert refusals(broken, shoot("a", "a", owned=ONE_EPOCH), SCHEDULER) == []
    assert refusals(broken, shoot("a", "a", owned=ONE_EPOCH), gardenlet("a")) == refused(messages.NOT_YOUR_EPOCH, FIELD)
    assert refusals(SETTLED, broken, SCHEDULER)[0][0] == FIELD


@pytest.mark.demand(G33="where no webhook ran")
@pytest.mark.parametrize(
    ("case", "message"),
    [
        (shoot("b", "a"), None),
        (shoot("going", "a"), messages.SEED_DELETED),
        (shoot("b", "bare"), messages.SOURCE_WITHOUT_BACKUP),
        (shoot("b", "a", "Create", "Processing"), messages.NOT_CREATED),
        (shoot("b", "a", controlPlane=HA), None),
        (shoot("a", "a"), None),
    ],
)
def test_controllers_ask_the_same_where_no_webhook_did(case: Object, message: str | None) -> None:
    assert [violation.message for violation in unmovable(case.decode(Shoot), GARDEN)] == ([message] if message else [])


def named(name: str, namespace: str) -> Object:
    tree = shoot("a").tree
    tree["metadata"] |= {"name": name, "namespace": namespace}
    return Object(msgspec.json.encode(tree))


@pytest.mark.parametrize(
    ("name", "namespace", "fields"),
    [
        ("x", "garden-core", []),
        ("x-y", "garden", []),
        ("x", "elsewhere", []),
        ("b--c", "garden-a", ["metadata.name"]),
        ("c", "garden-a--b", ["metadata.namespace"]),
        ("c", "garden-a-", ["metadata.namespace"]),
        ("x" * 50, "garden-core", []),
        ("x" * 51, "garden-core", ["metadata.name"]),
    ],
)
def test_no_two_shoots_can_have_same_namespace_in_seed(name: str, namespace: str, fields: list[str]) -> None:
    """`b--c` of project a, and `c` of project `a--b`, would both be shoot--a--b--c."""
    assert [field for field, _ in refusals(None, named(name, namespace), MEMBER)] == fields


def test_name_with_a_taken_namespace_is_refused() -> None:
    """Two shoots with one namespace in a seed would share machines."""
    taken = msgspec.structs.replace(GARDEN, is_taken=lambda _shoot, technical_id: technical_id == "shoot--core--x")
    (refusal,) = violations(None, shoot("a"), ADMIN, taken)
    assert (refusal.field, refusal.message) == ("metadata.name", messages.NAME_TAKEN)
    assert list(violations(SETTLED, SETTLED, ADMIN, taken)) == [], "one that is stored keeps its name"


@pytest.mark.parametrize(("types", "is_refused"), [(["other"], True), (["local"], False), (["*"], False), ([], False)])
def test_a_profile_names_the_providers_of_its_seeds(types: list[str], is_refused: bool) -> None:
    profile = CloudProfile(
        metadata=ObjectMeta(name="local"),
        spec=CloudProfileSpec(type="local", seed_selector=SeedSelector(provider_types=types)),
    )
    garden = msgspec.structs.replace(GARDEN, profile=lambda _name: profile)
    refusals = [violation.message for violation in unmovable(moved(SETTLED, "b").decode(Shoot), garden)]
    assert refusals == ([messages.WRONG_PROVIDER] if is_refused else [])


@pytest.mark.parametrize(("types", "is_refused"), [(["other"], True), (["local"], False), (["*"], False), ([], False)])
def test_a_shoot_names_the_providers_of_its_seeds(types: list[str], is_refused: bool) -> None:
    moving = moved(SETTLED, "b").decode(Shoot)
    spec = msgspec.structs.replace(moving.spec, seed_selector=SeedSelector(provider_types=types))
    refusals = [problem.message for problem in unmovable(msgspec.structs.replace(moving, spec=spec), GARDEN)]
    assert refusals == ([messages.WRONG_PROVIDER] if is_refused else [])
