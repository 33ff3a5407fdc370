"""Refusals and waits of the tasks for control planes and their secrets, one by one."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from espalier.api.core import DEPLOYMENT, SECRET
from espalier.api.gardener.garden.credentials_binding import CredentialsBinding
from espalier.api.gardener.garden.shoot_state import PersistedSecret, ShootState
from espalier.api.gardener.ownership import Ownership
from espalier.api.gardener.vocabulary.metadata_keys import SECRET_DIGESTS
from espalier.api.gardener.vocabulary.operations import OperationType
from espalier.api.meta import Tree
from espalier.kube.errors import Unreachable
from espalier.kube.objects import Object
from espalier.runtime.controllers.outcome import Continue, Done, Wait
from espalier.shoots.flow.task import Action, Failure, Verdict
from espalier.shoots.gardenlet.comparison import stamped
from espalier.shoots.gardenlet.context import ShootContext
from espalier.shoots.gardenlet.tasks import control_plane, secrets
from espalier.shoots.secrets import digests, names
from espalier.shoots.state.document import Document
from tests.support.gardens.gardenlet_scopes import NOW, TECHNICAL_ID, an_object, context, scope, shoot

MIGRATE = OperationType.MIGRATE


def shoot_with(spec: Tree, status: Tree | None = None) -> Object:
    tree = shoot("b").tree
    return Object(
        msgspec.json.encode({**tree, "spec": {**tree["spec"], **spec}, "status": {**tree["status"], **(status or {})}})
    )


@pytest.mark.parametrize(
    ("is_hibernated", "replicas", "is_asked"),
    [(False, 1, True), (False, 0, False), (False, None, False), (True, 0, True), (True, None, True)],
)
def test_destination_of_a_sleeping_shoot_is_asked_too(
    is_hibernated: bool, replicas: int | None, is_asked: bool
) -> None:
    """Its API server does not run anyway, which is no sign that the move has begun."""
    live = an_object(DEPLOYMENT, "kube-apiserver", TECHNICAL_ID, spec={"replicas": replicas})
    sleeping = shoot_with({"hibernation": {"enabled": is_hibernated}})
    of = scope(object=sleeping, deployments={} if replicas is None else {"kube-apiserver": live})
    assert (control_plane.skip_destination(context(of, MIGRATE)) == "") is is_asked


@pytest.mark.parametrize(("status", "is_read"), [("True", True), ("False", False), ("Unknown", False), ("", False)])
def test_source_stops_for_a_ready_destination_alone(status: str, is_read: bool) -> None:
    constraint = {"type": "ReadyForMigration", "status": status, "reason": "BucketNotReady", "message": "no bucket"}
    of = scope(object=shoot_with({}, {"constraints": [constraint] if status else []}))
    verdict = control_plane.wait_for_destination(context(of, MIGRATE))
    assert isinstance(verdict, Action if is_read else Wait)
    if not is_read and status:
        assert verdict == Wait("BucketNotReady", "no bucket")


async def test_silent_api_server_holds_up_no_controller() -> None:
    """They wait then until the Leases of their predecessors expire."""

    async def release_leases(_namespace: str, _controllers: object) -> None:
        raise Unreachable("connection refused", sent=False)

    ctx = context(scope(), OperationType.RESTORE, shoots=SimpleNamespace(release_leases=release_leases))
    verdict = control_plane.release_leases(ctx)
    assert isinstance(verdict, Action)
    assert isinstance(await verdict.run(), Continue)


@pytest.mark.parametrize("is_there", [False, True])
def test_machines_of_a_sleeping_shoot_are_deleted(is_there: bool) -> None:
    """By a machine controller manager that runs until they are gone; later it is scaled down."""
    asked: list[int] = []

    def deployment(name: str, _shoot: object, namespace: str, replicas: int, _client_secret: str) -> Tree:
        asked.append(replicas)
        return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": namespace}}

    def account(*_: object) -> Tree:
        return {"metadata": {"name": NAME, "namespace": TECHNICAL_ID}}

    renderer = SimpleNamespace(
        deployment=deployment, roles_in_shoot=list, service_account=account, role_binding=account
    )
    accounts = Object(msgspec.json.encode(stamped(account())))
    running = an_object(DEPLOYMENT, NAME, TECHNICAL_ID, spec={"replicas": 1})
    of = scope(
        object=shoot_with({"hibernation": {"enabled": True}}),
        deployments={NAME: running} if is_there else {},
        service_accounts={NAME: accounts},
        role_bindings={NAME: accounts},
    )
    verdict = control_plane.deploy_machine_controller_manager(context(of, renderer=renderer, shoots=None))
    assert (isinstance(verdict, Done), asked) == ((True, []) if is_there else (False, [1]))
    control_plane.start_machine_controller_manager(context(of, renderer=renderer, shoots=None))
    assert asked[-1] == 0


NAME = "machine-controller-manager"


def state_of(**persisted: str) -> Object:
    entries = [{"name": name, "data": {"x": b64encode(value.encode()).decode()}} for name, value in persisted.items()]
    return an_object(ShootState.resource, "apple", "garden-dev", gardenlet={"secrets": entries}, extensions=[])


async def test_a_shoot_keeps_the_secrets_in_its_state() -> None:
    """Those of the seed may be older, or somebody's: users and nodes know the ones that were persisted."""
    persisted: dict[str, Tree] = {}

    async def persist(_shoot: object, entries: list[PersistedSecret], _epoch: int, _replaced: list[str]) -> Object:
        persisted.update({entry.name: dict(entry.data) for entry in entries})
        return state_of()

    in_seed = {
        name: an_object(SECRET, name, TECHNICAL_ID, data={"x": b64encode(b"of the seed").decode()})
        for name in names.PERSISTED
    }
    ctx = context(
        scope(state=state_of(ca="persisted"), secrets=in_seed), states=SimpleNamespace(persist=persist), rng=None
    )
    verdict = secrets.check(ctx)
    assert isinstance(verdict, Action)
    await verdict.run()
    assert persisted[names.CA] == {"x": b64encode(b"persisted").decode()}
    assert persisted[names.CA_KUBELET] == {"x": b64encode(b"of the seed").decode()}


ALL = dict.fromkeys(names.PERSISTED, "own")


def judged(
    task: Callable[[ShootContext], Verdict],
    operation: OperationType,
    reported: str | None,
    stored: str,
    running: str,
    **facts: Any,
) -> Verdict:
    """The verdict on an authority in the ShootState and in the seed, which may be others than the reported one."""
    in_seed = {
        name: an_object(SECRET, name, TECHNICAL_ID, data={"x": b64encode(value.encode()).decode()})
        for name, value in (ALL | {names.CA: running}).items()
    }
    annotations = {} if reported is None else {SECRET_DIGESTS: reported}
    state = state_of(**ALL | {names.CA: stored})
    return task(context(scope(state=state, secrets=in_seed, object=shoot(**annotations), **facts), operation))


OWN = digests.reported({name: {"x": value.encode()} for name, value in ALL.items()})


@pytest.mark.parametrize(
    ("reported", "stored", "running", "what"),
    [
        (OWN, "own", "own", ""),
        (OWN, "own", "other", ""),
        (OWN, "other", "own", "copy ca into the ShootState"),
        (OWN, "other", "other", "report the digests of secrets"),
        (None, "own", "own", "report the digests of secrets"),
        ("{", "own", "own", "report the digests of secrets"),
        (OWN, "other", "third", f"kubectl annotate shoot apple -n garden-dev {SECRET_DIGESTS}-"),
    ],
)
def test_secrets_are_judged_before_a_move(reported: str | None, stored: str, running: str, what: str) -> None:
    verdict = judged(secrets.check, MIGRATE, reported, stored, running)
    match verdict:
        case Action():
            assert verdict.what == what
        case Failure():
            assert what in verdict.message
            assert "gardenlet.secrets[ca]:" in verdict.message
        case _:
            assert (verdict, what) == (Done(), "")


def test_copied_shoot_is_created_with_its_own_secrets() -> None:
    """The annotation of a copy is that of another shoot. Epochs tell, not what the status says."""
    new = Ownership()
    assert judged(secrets.generate, OperationType.CREATE, OWN, "other", "third", ownership=new) == Done()
    assert isinstance(judged(secrets.generate, OperationType.CREATE, OWN, "other", "third"), Failure)


@pytest.mark.parametrize(
    ("present", "problem"),
    [({}, "ca is missing"), ({"ca": "nonsense"}, "ca: ca.crt and ca.key are not a matching pair: KeyError('ca.crt')")],
    ids=["missing", "nonsense"],
)
def test_invalid_authorities_are_an_error_with_advice(present: dict[str, str], problem: str) -> None:
    state, secret = "ShootState garden-dev/apple", "the persisted secrets are invalid"
    verdict = secrets.derive(context(scope(state=state_of(**present), now=NOW)))
    assert verdict == Failure(f"{state}: {secret}: {problem}; restore it from a backup of the garden")


@pytest.mark.parametrize("value", ["#", "a", "\N{FULLWIDTH DIGIT ONE}AAA"])
def test_secret_that_is_no_base64_counts_as_missing(value: str) -> None:
    """It is copied from the seed again; a restore, which has no other, says what to restore."""
    entries = [{"name": name, "data": {"x": value if name == names.CA else "eA=="}} for name in names.PERSISTED]
    state = an_object(ShootState.resource, "apple", "garden-dev", gardenlet={"secrets": entries}, extensions=[])
    verdict = secrets.generate(context(scope(state=state), OperationType.RESTORE))
    assert isinstance(verdict, Failure)
    assert "ShootState garden-dev/apple has no ca:" in verdict.message
    in_seed = {names.CA: an_object(SECRET, names.CA, TECHNICAL_ID, data={"x": "eA=="})}
    verdict = secrets.check(context(scope(state=state, secrets=in_seed), MIGRATE))
    assert isinstance(verdict, Action)
    assert verdict.what == "copy ca into the ShootState"
    document = Document(state.raw)
    document.add_secrets([PersistedSecret(name, {"x": "eQ=="}) for name in names.PERSISTED])
    stored = Object(document.body).decode(ShootState).gardenlet.secrets
    assert sorted(entry.name for entry in stored) == sorted(names.PERSISTED)
    assert {entry.name for entry in stored if entry.data == {"x": "eQ=="}} == {names.CA}


async def test_credentials_no_gardenlet_reads_are_refused() -> None:
    async def get(resource: Any, name: str, namespace: str) -> Object:
        assert resource is CredentialsBinding.resource
        reference = {"apiVersion": "security.gardener.cloud/v1alpha1", "kind": "WorkloadIdentity", "name": "x"}
        return an_object(
            resource, name, namespace, credentialsRef={**reference, "namespace": namespace}, provider={"type": "local"}
        )

    of = scope(object=shoot_with({"credentialsBindingName": "cloud"}))
    ctx = context(of, garden=SimpleNamespace(client=SimpleNamespace(get=get)))
    verdict = secrets.deploy_credentials(ctx)
    assert isinstance(verdict, Action)
    outcome = await verdict.run()
    assert isinstance(outcome, Failure)
    assert outcome.message.startswith("spec.credentialsBindingName: credentialsRef of CredentialsBinding")
    assert outcome.codes == ("ERR_RETRYABLE_CONFIGURATION_PROBLEM",)
