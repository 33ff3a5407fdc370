"""Waits and refusals of moves: each of these guards alone keeps data, machines or owners apart."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from espalier.api.core import DEPLOYMENT
from espalier.api.gardener.etcd import Etcd
from espalier.api.gardener.extensions.infrastructure import Infrastructure
from espalier.api.gardener.extensions.worker import Worker
from espalier.api.gardener.garden.backups import BackupEntry
from espalier.api.gardener.garden.shoot_state import ShootState
from espalier.api.gardener.ownership import Ownership
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.api.gardener.vocabulary.operations import OperationType
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.kube.errors import Unreachable
from espalier.kube.objects import Object
from espalier.runtime.controllers.outcome import Continue, Done, Fault, Wait
from espalier.runtime.controllers.sources import Expiry
from espalier.shoots.control_plane import accounts
from espalier.shoots.control_plane.programs import ControlPlane
from espalier.shoots.flow.task import Action, Failure
from espalier.shoots.gardenlet import rendering
from espalier.shoots.gardenlet.comparison import digest_of, stamped
from espalier.shoots.gardenlet.config import GardenletConfig
from espalier.shoots.gardenlet.context import Live, ShootContext
from espalier.shoots.gardenlet.names import INITIATED_AT, WOKEN_AT
from espalier.shoots.gardenlet.reconciling import steps
from espalier.shoots.gardenlet.scope import ExtensionResource
from espalier.shoots.gardenlet.tasks import acts, backups, control_plane, extensions, secrets
from espalier.shoots.secrets.names import PERSISTED
from espalier.shoots.state.limits import LARGEST_STATE
from tests.support.gardens.gardenlet_scopes import NOW, STARTED, TECHNICAL_ID, an_object, context, etcd, scope, shoot

BACK = STARTED.add("b", "bucket-b").start(2, "b").add("a", "bucket-a")
"""Epochs of a shoot that returns to seed a: 1 of a, 2 of b, 3 of a."""


@pytest.mark.parametrize(
    ("released", "is_over"), [(None, False), ("1", False), ("2", True), ("3", False), ("", False), ("x", False)]
)
def test_release_of_the_last_epoch_spares_the_wait(released: str | None, is_over: bool) -> None:
    """Every shoot that was moved in the good case has an earlier one."""
    marks = {metadata_keys.RELEASED_EPOCH: released} if released is not None else {}
    of = scope(BACK, object=shoot(**marks))
    verdict = backups.wait_for_source_lease(context(of, OperationType.RESTORE, lease_waits=Expiry()))
    assert isinstance(verdict, Done) == is_over


async def test_wait_for_a_lease_is_of_one_epoch_and_shoot() -> None:
    waits = Expiry()
    first = context(scope(BACK), OperationType.RESTORE, lease_waits=waits)
    verdict = backups.wait_for_source_lease(first)
    assert isinstance(verdict, Action)
    assert isinstance(await verdict.run(), Wait)
    assert isinstance(backups.wait_for_source_lease(first), Wait), "it has begun"
    later = scope(BACK.start(3, "a").add("b", "bucket-b").start(4, "b").add("a", "bucket-a"))
    assert isinstance(backups.wait_for_source_lease(context(later, lease_waits=waits)), Action), "another one begins"
    waits.forget(first.live.shoot.key)


def asleep(**annotations: str) -> Object:
    metadata = {"annotations": {metadata_keys.EPOCH: "1", **annotations}}
    return an_object(Etcd.resource, "etcd-main", TECHNICAL_ID, metadata=metadata, spec={"replicas": 0})


def test_etcd_is_woken_unless_it_is_gone_or_was_asked() -> None:
    """Only an agent that runs can store what its etcd has (G72 to G74)."""
    assert backups.skip_wake(context(scope(etcd=asleep()))) == ""
    assert backups.skip_wake(context(scope())) == "etcd-main is gone: it was handed over"
    asked = asleep(**{INITIATED_AT: NOW.isoformat()})
    assert backups.skip_wake(context(scope(etcd=asked))) == "a copy operation was initiated"


def test_sleeping_etcd_alone_is_scaled_up() -> None:
    verdict = backups.wake_etcd(context(scope(etcd=asleep())))
    assert isinstance(verdict, Action)
    assert verdict.what == "scale etcd-main up"
    assert isinstance(backups.wake_etcd(context(scope(etcd=etcd()))), Done), "its agent answers in any case"
    assert isinstance(backups.wake_etcd(context(scope())), Done)


@pytest.mark.parametrize(("tolerance", "members"), [(None, 1), ("node", 3), ("zone", 3)])
def test_etcd_is_woken_with_all_its_members(tolerance: str | None, members: int) -> None:
    """One of three alone has no quorum, and could hand nothing over."""
    of = scope(etcd=asleep())
    kind = {"highAvailability": {"failureTolerance": {"type": tolerance}}} if tolerance else None
    tree = {**of.object.tree, "spec": {**of.object.tree["spec"], "controlPlane": kind}}
    tolerant = dataclasses.replace(of, object=Object(msgspec.json.encode(tree)))
    woken = rendering.woken_etcd(tolerant)
    assert woken["replicas"] == members
    assert woken["etcd"], "members and agents know each other by a Secret"


@pytest.mark.parametrize("at", ["", "x", "2026-01-01T00:00:00", "2099-01-01T00:00:00Z", "2020-01-01T00:00:00Z"])
def test_a_wrong_time_in_an_annotation_holds_no_move(at: str) -> None:
    """The handover, which comes next, asks the agent itself."""
    assert isinstance(backups.wake_etcd(context(scope(etcd=etcd(1, **{WOKEN_AT: at})))), Done)


@pytest.mark.parametrize("at", ["", "x", "2026-01-01T00:00:00", "2099-01-01T00:00:00Z", "2020-01-01T00:00:00Z"])
async def test_no_time_in_an_annotation_ends_a_handover(at: str) -> None:
    """Without its final snapshot, what clients wrote last would be lost."""
    handovers = Expiry()
    of = context(scope(etcd=etcd(1, **{INITIATED_AT: at})), OperationType.MIGRATE, handovers=handovers)
    verdict = backups.hand_over_etcd(of)
    assert isinstance(verdict, Action)
    assert verdict.what == "have the agent hand etcd over"
    handovers.keep(of.live.shoot.key, "hand over 1/1", 0)


def test_changed_epoch_of_an_etcd_is_set_back() -> None:
    namespace = an_object(DEPLOYMENT, "any", metadata={"annotations": {metadata_keys.EPOCH: "1"}})
    live = etcd(7, **{INITIATED_AT: NOW.isoformat()})
    verdict = backups.hand_over_etcd(context(scope(etcd=live, namespace=namespace), OperationType.MIGRATE))
    assert isinstance(verdict, Action)
    assert verdict.what == "correct the epoch of etcd-main"


def marked(epoch: str) -> Object:
    return an_object(DEPLOYMENT, "any", metadata={"annotations": {metadata_keys.EPOCH: epoch}})


@pytest.mark.parametrize(
    ("namespace", "cluster", "of_etcd", "leftover", "later"),
    [
        ("3", "3", 3, 3, None),
        ("2", "3", 3, 3, None),
        ("3", "3", 1, 3, None),
        ("2", "2", 2, 2, None),
        ("2", "99", 2, 2, None),
        ("x", "", 2, 2, None),
        ("4", "4", 4, None, 4),
        ("4", "5", 3, 3, None),
        ("9" * 20, "9" * 20, 4, None, None),
        ("\N{FULLWIDTH DIGIT FOUR}", "\N{SUPERSCRIPT TWO}", 2, 2, None),
    ],
)
def test_one_changed_epoch_makes_no_leftover_of_rest(
    namespace: str, cluster: str, of_etcd: int, leftover: int | None, later: int | None
) -> None:
    of = scope(BACK, namespace=marked(namespace), cluster=marked(cluster), etcd=etcd(of_etcd))
    assert (of.leftover_epoch, of.later_epoch) == (leftover, later)


async def test_later_epoch_in_the_seed_stops_everything() -> None:
    of = scope(STARTED, namespace=marked("2"), cluster=marked("2"), etcd=etcd(2))
    attempt: Any = SimpleNamespace(scope=of, seed="a", not_started=None)
    outcome = await steps.check_epochs(attempt)
    assert getattr(outcome, "reason", "") == "FlowNotStarted"
    assert "espalier.gardener.cloud/ownership]: found epoch 1, but" in str(outcome)
    assert isinstance(await steps.check_epochs(SimpleNamespace(scope=of, seed="b")), Continue)  # type: ignore[arg-type]


def with_state(state: str) -> ExtensionResource:
    status = {"lastOperation": {"type": "Create", "state": "Succeeded"}, "state": msgspec.Raw(state.encode())}
    made = an_object(Infrastructure.resource, "apple", TECHNICAL_ID, spec={"type": "local"}, status=status)
    return ExtensionResource(Infrastructure, made)


def test_unstorable_state_stops_nothing() -> None:
    large = with_state(f'"{"x" * LARGEST_STATE}"')
    verdict = extensions.check_states(context(scope(extensions=(large,)), OperationType.MIGRATE))
    assert isinstance(verdict, Failure)
    assert verdict.message.startswith("the shoot can't be restored in another seed: Infrastructure apple: ")


def test_nothing_stops_before_states_are_stored() -> None:
    """Nor before the secrets are: the ShootState is all that another seed gets."""
    verdict = extensions.check_states(context(scope(extensions=(with_state('"a"'),)), OperationType.MIGRATE))
    assert not isinstance(verdict, Done)
    stored = extensions.wait_until_persisted(context(scope(extensions=(with_state('"a"'),)), OperationType.MIGRATE))
    assert isinstance(stored, Wait)
    assert stored.message == "the state of Infrastructure apple is not in the ShootState yet"


def api_server(seconds: float) -> dict[str, Object]:
    since = (NOW - timedelta(seconds=seconds)).isoformat()
    return {"kube-apiserver": an_object(DEPLOYMENT, "kube-apiserver", metadata={"creationTimestamp": since})}


@pytest.mark.parametrize(("silent", "is_over"), [(["n1"], False), ([], True)])
async def test_controllers_start_once_all_nodes_are_heard(silent: list[str], is_over: bool) -> None:
    async def silent_nodes(_namespace: str, _since: object) -> list[str]:
        return silent

    of = context(scope(deployments=api_server(1)), shoots=SimpleNamespace(silent_nodes=silent_nodes))
    verdict = control_plane.wait_for_nodes(of)
    assert isinstance(verdict, Action)
    assert isinstance(await verdict.run(), Continue if is_over else Wait)


def test_nodes_are_waited_for_until_their_time_is_over() -> None:
    late = api_server(GardenletConfig("a").nodes_timeout + 1)
    assert isinstance(control_plane.wait_for_nodes(context(scope(deployments=late), shoots=None)), Done)
    assert isinstance(control_plane.wait_for_nodes(context(scope(), shoots=None)), Wait), "there is no API server yet"
    running = {**api_server(1), "kube-controller-manager": an_object(DEPLOYMENT, "kube-controller-manager")}
    assert isinstance(control_plane.wait_for_nodes(context(scope(deployments=running), shoots=None)), Done)


def worker(last: str, order: str = "") -> ExtensionResource:
    kind, state = last.split()
    metadata: Tree = {"annotations": {metadata_keys.OPERATION: order} if order else {}}
    status = {"lastOperation": {"type": kind, "state": state}}
    made = an_object(Worker.resource, "apple", TECHNICAL_ID, metadata=metadata, spec={"type": "local"}, status=status)
    return ExtensionResource(Worker, made)


def of_tree(tree: Tree) -> Object:
    return Object(msgspec.json.encode(stamped(tree)))


ACCOUNT = accounts.MACHINE_CONTROLLER_MANAGER
ACCOUNTS: dict[str, Any] = {
    "service_accounts": {ACCOUNT: of_tree(accounts.service_account(TECHNICAL_ID, ""))},
    "role_bindings": {ACCOUNT: of_tree(accounts.role_binding(TECHNICAL_ID))},
}
"""Those of a machine controller manager where nobody reaches its shoot."""


def tools_of(deployment: Callable[[str, object, str, int], Tree]) -> dict[str, Any]:
    plane = ControlPlane()
    parts = {name: getattr(plane, name) for name in ("roles_in_shoot", "service_account", "role_binding")}
    return {"renderer": SimpleNamespace(deployment=deployment, **parts), "shoots": None}


@pytest.mark.parametrize(
    ("value", "replicas"),
    [
        (None, 0),
        (worker("Restore Processing"), 0),
        (worker("Restore Succeeded", "restore"), 0),
        (worker("Create Succeeded", "wait-for-state"), 0),
        (worker("Migrate Succeeded"), 0),
        (worker("Restore Error"), 0),
        (worker("Restore Succeeded"), 1),
    ],
)
def test_machines_wait_for_their_restored_worker(value: ExtensionResource | None, replicas: int) -> None:
    """Before, the machine controller manager does not see all of them, and makes others in their place."""
    asked: list[int] = []

    def deployment(name: str, _shoot: object, namespace: str, replicas: int, _client: str = "") -> Tree:
        asked.append(replicas)
        return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": namespace}}

    resources = (value,) if value is not None else ()
    of = context(scope(extensions=resources, **ACCOUNTS), OperationType.RESTORE, **tools_of(deployment))
    control_plane.start_machine_controller_manager(of)
    assert asked == [replicas]
    control_plane.deploy_machine_controller_manager(of)
    assert asked == [replicas, 0], "a new one starts scaled down"


class Applied:
    """Keeps what is applied in the shoot, and in the seed."""

    def __init__(self) -> None:
        self.names: list[str] = []

    async def apply(self, target: object, *objects: Any) -> None:
        if isinstance(target, Resource):
            self.names.append(f"seed: {target.kind}")
        else:
            self.names += [f"shoot: {resource.kind}" for resource, _ in objects[0]]


async def test_machine_controller_gets_rights_in_the_shoot() -> None:
    applied, renderer = Applied(), ControlPlane()
    of = context(scope(), renderer=renderer, shoots=applied, seed=applied, shoot_roles=Expiry())
    verdict = control_plane.start_machine_controller_manager(of)
    assert isinstance(verdict, Action)
    await verdict.run()
    assert applied.names[-1] == "seed: ServiceAccount", "which records that the shoot has them"
    assert set(applied.names[:-1]) == {f"shoot: {resource.kind}" for resource, _ in renderer.roles_in_shoot()}


def running_machine_controller(applied: Any) -> ShootContext:
    """Of a shoot whose machine controller manager runs, and has its roles."""

    def deployment(name: str, _shoot: object, namespace: str, _replicas: int, _client: str = "") -> Tree:
        return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": namespace}}

    digest = digest_of([tree for _, tree in ControlPlane().roles_in_shoot()])
    live = stamped(deployment(ACCOUNT, None, TECHNICAL_ID, 1)) | {"status": {"availableReplicas": 1}}
    has = {
        **ACCOUNTS,
        "service_accounts": {ACCOUNT: of_tree(accounts.service_account(TECHNICAL_ID, digest))},
        "deployments": {ACCOUNT: Object(msgspec.json.encode(live))},
    }
    return context(scope(**has), **{**tools_of(deployment), "shoots": applied, "shoot_roles": Expiry()})


async def test_deleted_roles_in_shoot_are_restored() -> None:
    """Its owner may delete them: no annotation in the seed tells that."""
    applied = Applied()
    of = running_machine_controller(applied)
    for times in (1, 2):
        verdict = control_plane.start_machine_controller_manager(of)
        assert isinstance(verdict, Action)
        assert isinstance(await verdict.run(), Continue)
        assert len(applied.names) == times * len(ControlPlane().roles_in_shoot())
        assert isinstance(control_plane.start_machine_controller_manager(of), Done), "until they are due again"
        of.tools.shoot_roles.keep(of.live.shoot.key, "expires", 0)


@pytest.mark.parametrize("error", [Unreachable("connection refused", sent=False), TimeoutError()])
async def test_silent_shoot_does_not_hold_up_its_flow(error: Exception) -> None:
    async def apply(*_: object) -> None:
        raise error

    of = running_machine_controller(SimpleNamespace(apply=apply))
    verdict = control_plane.start_machine_controller_manager(of)
    assert isinstance(verdict, Action)
    assert isinstance(await verdict.run(), Continue)
    assert isinstance(control_plane.start_machine_controller_manager(of), Done), "it is not asked at once again"


@pytest.mark.parametrize("missing", ["service_accounts", "role_bindings"])
def test_machine_controller_starts_after_its_account(missing: str) -> None:
    """An API server accepts no pod whose ServiceAccount is missing."""
    asked: list[int] = []

    def deployment(_name: str, _shoot: object, _namespace: str, replicas: int, _client: str = "") -> Tree:
        asked.append(replicas)
        return {}

    of = context(scope(**{**ACCOUNTS, missing: {}}), **tools_of(deployment))
    assert isinstance(control_plane.start_machine_controller_manager(of), Action)
    assert asked == []


UNCONFIRMED = ExtensionResource(
    Worker, an_object(Worker.resource, "apple", TECHNICAL_ID, metadata={"deletionTimestamp": NOW.isoformat()})
)
STATE_OF_MACHINES = [{"kind": "Worker", "name": "apple", "state": "machines"}]


@pytest.mark.parametrize(
    ("value", "states", "replicas"),
    [
        (None, None, 1),
        (None, [], 1),
        (None, STATE_OF_MACHINES, 0),
        (None, [{"kind": "Infrastructure", "name": "apple", "state": "networks"}], 1),
        (worker("Create Succeeded"), STATE_OF_MACHINES, 1),
        (worker("Create Succeeded", "reconcile"), STATE_OF_MACHINES, 1),
        (worker("Create Succeeded", "wait-for-state"), STATE_OF_MACHINES, 0),
        (worker("Restore Processing", "restore"), STATE_OF_MACHINES, 0),
        (worker("Create Succeeded", "migrate"), STATE_OF_MACHINES, 0),
        (UNCONFIRMED, STATE_OF_MACHINES, 0),
    ],
)
def test_restoring_worker_replaces_no_machine(
    value: ExtensionResource | None, states: list[Tree] | None, replicas: int
) -> None:
    """Somebody deleted it in its seed: its machines run on, and their objects come back with its state."""
    asked: list[int] = []

    def deployment(name: str, _shoot: object, namespace: str, replicas: int, _client: str = "") -> Tree:
        asked.append(replicas)
        return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": namespace}}

    state = an_object(ShootState.resource, "apple", "garden-dev", extensions=states) if states is not None else None
    resources = (value,) if value is not None else ()
    of = context(scope(state=state, extensions=resources, **ACCOUNTS), **tools_of(deployment))
    control_plane.start_machine_controller_manager(of)
    assert asked == [replicas]


@pytest.mark.parametrize(
    ("deleted", "observed", "is_over"), [(None, 2, True), (NOW.isoformat(), 2, False), (None, 1, False)]
)
def test_etcd_counts_as_ready_as_it_is_asked_for_now(deleted: str | None, observed: int, is_over: bool) -> None:
    """An API server that starts before has no data, or those of an etcd that ends."""
    metadata = {"generation": 2, "deletionTimestamp": deleted, "annotations": {WOKEN_AT: NOW.isoformat()}}
    status = {"ready": True, "observedGeneration": observed}
    live = an_object(Etcd.resource, "etcd-main", TECHNICAL_ID, metadata=metadata, spec={"replicas": 1}, status=status)
    assert isinstance(backups.wake_etcd(context(scope(etcd=live))), Done) == is_over


def test_no_etcd_copies_where_there_is_nothing_to_copy() -> None:
    with pytest.raises(ValueError, match="starts with this epoch"):
        rendering.copy_etcd(scope())


@pytest.mark.parametrize(
    ("replicas", "status", "is_over"),
    [
        (0, {"observedGeneration": 2}, True),
        (0, {"observedGeneration": 1}, False),
        (0, {"observedGeneration": 2, "replicas": 1}, False),
        (0, {}, False),
        (1, {"observedGeneration": 2}, False),
    ],
)
def test_program_has_ended_once_its_deployment_saw_it(replicas: int, status: Tree, is_over: bool) -> None:
    """Its pods may not be in the cache yet."""
    live = an_object(
        DEPLOYMENT, "kube-apiserver", metadata={"generation": 2}, spec={"replicas": replicas}, status=status
    )
    of = context(scope(deployments={"kube-apiserver": live}))
    assert isinstance(control_plane.stop("kube-apiserver")(of), Done) == is_over
    assert control_plane.api_servers_ended(of) == is_over


def test_a_restored_shoot_gets_no_new_authorities() -> None:
    """Nodes and users trust the ones that it had (G6, G30)."""
    verdict = secrets.generate(context(scope(), OperationType.RESTORE))
    assert isinstance(verdict, Failure)
    assert "a restored shoot gets no new secrets" in verdict.message
    assert isinstance(secrets.generate(context(scope(), OperationType.CREATE)), Action)


def test_a_shoot_whose_secrets_are_lost_is_not_moved() -> None:
    verdict = secrets.check(context(scope(), OperationType.MIGRATE))
    assert isinstance(verdict, Failure)
    assert "and neither has the seed: restore it from a backup of the garden" in verdict.message
    there = {name: an_object(DEPLOYMENT, name) for name in PERSISTED}
    copied = secrets.check(context(scope(secrets=there), OperationType.MIGRATE))
    assert isinstance(copied, Action)
    assert copied.what.startswith("copy ")


def test_object_being_deleted_is_awaited_unwritten() -> None:
    """Whatever is applied to it is gone with it."""
    metadata = {"deletionTimestamp": NOW.isoformat(), "finalizers": ["tests/held"]}
    live = an_object(DEPLOYMENT, "kube-apiserver", metadata=metadata, spec={"replicas": 1})
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "kube-apiserver"}}
    for verdict in (
        acts.apply_object(context(scope()), DEPLOYMENT, live, body),
        acts.delete_object(context(scope()), DEPLOYMENT, live),
    ):
        assert isinstance(verdict, Wait)
        assert verdict.reason == "Deleting"


def test_backup_entry_being_deleted_is_awaited() -> None:
    """The Shoot goes last: with it, its seed loses the right to delete the backups."""
    going = an_object(BackupEntry.resource, "entry", "garden-dev", metadata={"deletionTimestamp": NOW.isoformat()})
    verdict = backups.delete_backup_entries(context(scope(backup_entry=going), OperationType.DELETE))
    assert isinstance(verdict, Wait)
    assert verdict.reason == "Deleting"
    there = an_object(BackupEntry.resource, "entry", "garden-dev")
    of = context(scope(backup_entry=there), OperationType.DELETE, garden=SimpleNamespace(client=None))
    assert isinstance(backups.delete_backup_entries(of), Action)


@pytest.mark.parametrize(
    ("status", "is_over"),
    [
        ({"observedGeneration": 2, "availableReplicas": 1}, True),
        ({"observedGeneration": 1, "availableReplicas": 1}, False),
        ({"observedGeneration": 2}, False),
        ({}, False),
    ],
)
def test_program_is_deployed_once_available(status: Tree, is_over: bool) -> None:
    """An API server that is about to be replaced serves nobody for long."""
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "kube-apiserver"}, "spec": {}}
    marks = stamped(body)["metadata"]["annotations"]
    metadata = {"generation": 2, "annotations": marks}
    live = an_object(DEPLOYMENT, "kube-apiserver", metadata=metadata, spec={}, status=status)
    renderer = SimpleNamespace(deployment=lambda *_: body)
    of = context(scope(deployments={"kube-apiserver": live}), renderer=renderer)
    assert isinstance(control_plane.deploy("kube-apiserver")(of), Done) == is_over
    old = an_object(DEPLOYMENT, "kube-apiserver", metadata={"generation": 2}, spec={}, status=status)
    replaced = control_plane.deploy("kube-apiserver")(
        context(scope(deployments={"kube-apiserver": old}), renderer=renderer)
    )
    assert isinstance(replaced, Action), "one that is not as rendered is written, available or not"


@pytest.mark.parametrize("last", ["Restore Processing", "Restore Error", "Migrate Succeeded"])
def test_restoring_shoot_is_deleted_once_restored(last: str) -> None:
    """As after a move that was cancelled: nobody deletes what stands behind resources that were released."""
    deleted = shoot(last=last, deletionTimestamp=NOW.isoformat())
    assert steps.operation_of(scope(object=deleted)) is OperationType.RESTORE
    restored = shoot(last="Restore Succeeded", deletionTimestamp=NOW.isoformat())
    assert steps.operation_of(scope(object=restored)) is OperationType.DELETE


@pytest.mark.parametrize(("epochs", "is_refused"), [(STARTED, True), (BACK, False)], ids=["started", "never started"])
def test_cancelled_move_of_unstarted_epoch_is_restored(epochs: Ownership, is_refused: bool) -> None:
    """Without an etcd that has started, nothing was handed over."""
    marks = {metadata_keys.OWNERSHIP: epochs.render(), metadata_keys.RESTORED_EPOCH: "3"}
    back = shoot(last="Migrate Processing", **marks)
    operation = steps.operation_of(scope(epochs, object=back))
    assert isinstance(operation, Fault) if is_refused else operation is OperationType.RESTORE


async def test_restored_epoch_is_recorded_once() -> None:
    """Until then the shoot is restored again, whatever its status says."""
    written: list[Tree] = []

    async def merge(_resource: object, _live: object, patch: Tree) -> Object:
        written.append(patch["metadata"]["annotations"])
        return restored

    tools: Any = SimpleNamespace(garden=SimpleNamespace(merge=merge))
    epochs = {metadata_keys.OWNERSHIP: BACK.start(3, "a").render()}
    restored = shoot(**epochs, **{metadata_keys.RESTORED_EPOCH: "3"})
    for live in (shoot(**epochs), restored):
        of = scope(BACK.start(3, "a"), object=live)
        await steps._record_restored(Live(live, None), tools, of)
    assert written == [{metadata_keys.RESTORED_EPOCH: "3"}]
