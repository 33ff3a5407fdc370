"""Shoots and seeds: where control planes are, and how they move. Pure: from the objects of caches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from espalier.api import conditions
from espalier.api.definitions.reference import Remedy
from espalier.api.gardener import ownership
from espalier.api.gardener.garden.seed import GARDENLET_READY, Seed
from espalier.api.gardener.garden.shoot import API_SERVER_AVAILABLE, READY_FOR_DISASTER, Shoot
from espalier.api.gardener.ownership import OwnershipError
from espalier.api.gardener.vocabulary.metadata_keys import OWNERSHIP
from espalier.api.gardener.vocabulary.operations import Condition, OperationState
from espalier.api.gardener.vocabulary.reasons import ShootReason
from espalier.api.resource import Key
from espalier.api.text import redaction
from espalier.api.text.printable import quoted
from espalier.dashboard.models.health import Health, State
from espalier.kube.objects import Object
from espalier.shoots.flow.status import TaskState, read
from espalier.shoots.garden.operations import failure, has_settled, pending_tasks
from espalier.shoots.gardenlet.reconciling.flows import flow_of

LONGEST = 400
MOVING = "Moving"
MOST_MOMENTS = 60
"""Moments of a move that are remembered for a shoot."""


class SeedRow(msgspec.Struct, frozen=True):
    """A seed."""

    name: str
    state: State
    shoots: int = 0
    coming: int = 0
    leaving: int = 0
    renewed: str = ""
    """When its gardenlet renewed its Lease; empty if never, or not readable."""
    backup: str = ""
    message: str = ""


class ShootRow(msgspec.Struct, frozen=True):
    """A shoot in the list of all."""

    key: Key
    state: State
    kubernetes: str = ""
    seed: str = ""
    wanted: str = ""
    """The seed that it moves to; empty if it does not move."""
    operation: str = ""
    progress: int = 100
    disaster: State | None = None
    """The answer to whether it could be restored elsewhere; None before its gardenlet has reported."""
    backups: str = ""
    """The message about that."""
    checked: str = ""
    """When that was found out."""
    since: str = ""
    message: str = ""


class Task(NamedTuple):
    """A task of the last operation."""

    name: str
    state: str
    message: str


class Epoch(NamedTuple):
    """A seed's ownership of the shoot's etcd."""

    number: int
    seed: str
    bucket: str
    started: bool


class ShootPage(msgspec.Struct, frozen=True):
    """All that is shown of one shoot."""

    row: ShootRow
    technical_id: str = ""
    tasks: tuple[Task, ...] = ()
    conditions: tuple[tuple[State, Condition], ...] = ()
    epochs: tuple[Epoch, ...] = ()
    problem: str = ""
    """The fault of the annotation with the epochs."""
    errors: tuple[str, ...] = ()


def seed_of(object_: Object, shoots: Iterable[Shoot], renewed: str) -> SeedRow:
    """The row of a Seed. Raises `msgspec.ValidationError`."""
    seed = object_.decode(Seed)
    name = seed.metadata.name
    every = list(shoots)
    ready = conditions.get(seed.status.conditions, GARDENLET_READY)
    if seed.metadata.deletion_timestamp is not None:
        state = State(Health.CHANGING, "Deleting")
    elif ready is None:
        state = State(Health.UNKNOWN, "Not reported yet")
    elif ready.status == "True":
        state = State(Health.READY, "Ready")
    else:
        state = State(Health.FAILING, "Silent" if ready.status == "Unknown" else "Not ready")
    return SeedRow(
        name,
        state,
        shoots=sum(shoot.status.seed_name == name for shoot in every),
        coming=sum(shoot.spec.seed_name == name != shoot.status.seed_name for shoot in every),
        leaving=sum(shoot.status.seed_name == name != shoot.spec.seed_name for shoot in every),
        renewed=renewed,
        backup=seed.spec.backup.provider if seed.spec.backup is not None else "",
        message=quoted(ready.message, LONGEST) if ready is not None and ready.status != "True" else "",
    )


def row_of(object_: Object) -> ShootRow:
    """The row of a Shoot."""
    try:
        shoot = object_.decode(Shoot)
    except msgspec.ValidationError as error:
        text = quoted(f"the Shoot can't be read: {error}", LONGEST)
        return ShootRow(object_.key, State(Health.FAILING, "Unreadable"), message=text)
    last, status, spec = shoot.status.last_operation, shoot.status, shoot.spec
    disaster = conditions.get(status.conditions, READY_FOR_DISASTER)
    moves = bool(status.seed_name and spec.seed_name and status.seed_name != spec.seed_name)
    state = _state(shoot, moves=moves)
    secrets = redaction.secrets_of(object_.tree.get("spec"))
    message = "" if state.health is Health.READY else failure(shoot) or _waits(shoot)
    return ShootRow(
        object_.key,
        state,
        kubernetes=spec.kubernetes.version,
        seed=status.seed_name or spec.seed_name or "",
        wanted=(spec.seed_name or "") if moves else "",
        operation=f"{last.type} {last.state}" if last is not None else "",
        progress=last.progress if last is not None else 0,
        disaster=_of_disaster(disaster) if disaster is not None else None,
        backups=quoted(disaster.message, LONGEST) if disaster is not None else "",
        checked=disaster.last_update_time if disaster is not None else "",
        since=last.last_update_time if last is not None else object_.metadata.creation_timestamp or "",
        message=quoted(redaction.concealed(message, secrets), LONGEST),
    )


def _waits(shoot: Shoot) -> str:
    if shoot.status.last_operation is not None and has_settled(shoot):
        bad = [each for each in shoot.status.conditions if each.status not in ("True", "Progressing")]
        return "; ".join(f"{each.type}: {each.message}" for each in bad)
    return pending_tasks(shoot)


def _state(shoot: Shoot, *, moves: bool) -> State:
    last = shoot.status.last_operation
    if last is not None and last.state == OperationState.FAILED:
        return State(Health.FAILING, "Failed")
    if shoot.metadata.deletion_timestamp is not None:
        return State(Health.CHANGING, "Deleting")
    if last is None:
        return State(Health.CHANGING, MOVING if moves else "Pending")
    if moves or (last.type in ("Migrate", "Restore") and not last.finished):
        return State(Health.CHANGING, MOVING)
    if last.state == OperationState.ERROR:
        return State(Health.FAILING, "Retrying")
    if not last.finished:
        return State(Health.CHANGING, last.type)
    if shoot.status.hibernated:
        return State(Health.PAUSED, "Hibernated")
    if any(each.status == "False" and each.type != READY_FOR_DISASTER for each in shoot.status.conditions):
        return State(Health.FAILING, "Unhealthy")
    if any(each.status == "Unknown" and each.type != READY_FOR_DISASTER for each in shoot.status.conditions):
        return State(Health.UNKNOWN, "Unknown")
    return State(Health.READY, "Ready")


def _of_disaster(condition: Condition) -> State:
    if condition.status == "True":
        return State(Health.READY, "Yes")
    return State(Health.FAILING, "No") if condition.status == "False" else State(Health.UNKNOWN, "Unknown")


def advice(reason: str) -> tuple[str, str]:
    """The meaning of a reason of shoots, and what it takes; empty for other reasons."""
    try:
        prose = ShootReason(reason).prose
    except ValueError:
        return "", ""
    takes = "needs time, nobody has to act" if prose.remedy is Remedy.TIME else "somebody has to act"
    return prose.meaning.replace("`", ""), takes


def page_of(object_: Object) -> ShootPage:
    """The page of a shoot."""
    row = row_of(object_)
    try:
        shoot = object_.decode(Shoot)
    except msgspec.ValidationError:
        return ShootPage(row)
    secrets = redaction.secrets_of(object_.tree.get("spec"))

    def hidden(text: str) -> str:
        return redaction.concealed(text, secrets)

    problem = ""
    try:
        epochs = ownership.parse(shoot.metadata.annotations.get(OWNERSHIP)).epochs
    except OwnershipError as error:
        epochs, problem = (), f"annotation {OWNERSHIP}: {error}"
    status = shoot.status
    return ShootPage(
        row,
        technical_id=status.technical_id,
        tasks=tuple(Task(name, state, hidden(message)) for name, state, message in _tasks(shoot)),
        conditions=tuple(
            (_of_condition(each), msgspec.structs.replace(each, message=hidden(each.message)))
            for each in (*status.conditions, *status.constraints)
        ),
        epochs=tuple(Epoch(each.epoch, each.seed, each.bucket, each.started) for each in epochs),
        problem=problem,
        errors=tuple(hidden(f"{each.task_id}: {each.description}") for each in status.last_errors),
    )


def _tasks(shoot: Shoot) -> list[tuple[str, str, str]]:
    """The tasks of the last operation that is not done, as `espalier shoots flow` reads them."""
    last = shoot.status.last_operation
    if last is None or last.finished:
        return []
    failed = {error.task_id: error.description for error in shoot.status.last_errors if error.task_id}
    flow = flow_of(last.type)
    states = {
        TaskState.DONE: "done",
        TaskState.SKIPPED: "done",
        TaskState.WAITING: "current",
        TaskState.OVERDUE: "failed",
        TaskState.FAILED: "failed",
        TaskState.BLOCKED: "open",
    }
    return [
        (name, states[task.state], task.message) for name, task in read(flow, last.description, failed).tasks.items()
    ]


def _of_condition(condition: Condition) -> State:
    healths = {"True": Health.READY, "False": Health.FAILING, "Progressing": Health.CHANGING}
    return State(healths.get(condition.status, Health.UNKNOWN), condition.status)


# Moves

MomentKind: TypeAlias = Literal["request", "operation", "handover", "lost", "back", "end"]


class Moment(NamedTuple):
    """Something that happened in a move."""

    time: str
    kind: MomentKind
    text: str


class Timeline(msgspec.Struct, frozen=True):
    """The moments of a shoot's moves, as long as the dashboard watches it, and the gap of its API."""

    moments: tuple[Moment, ...] = ()
    lost_at: str = ""
    """Since when the API server is not reported as available; empty while it is."""
    gap: float | None = None
    """Seconds of the last gap, as the gardenlets report it; None if there was none."""


def advanced(line: Timeline, before: Object | None, after: Object, now: str) -> Timeline:
    """The timeline after a change of the Shoot. `now` is the time for what has none of its own."""
    try:
        old = before.decode(Shoot) if before is not None else None
        new = after.decode(Shoot)
    except msgspec.ValidationError:
        return line
    moments = list(_moments(old, new, now))
    available = conditions.get(new.status.conditions, API_SERVER_AVAILABLE)
    lost_at, gap = line.lost_at, line.gap
    if available is not None and old is not None:
        was = conditions.get(old.status.conditions, API_SERVER_AVAILABLE)
        if was is not None and was.status == "True" != available.status:
            lost_at = available.last_transition_time or now
            moments.append(Moment(lost_at, "lost", "the API server is not reported as available"))
        elif lost_at and available.status == "True":
            back_at = available.last_transition_time or now
            began, ended = conditions.parse_timestamp(lost_at), conditions.parse_timestamp(back_at)
            gap = max(0.0, (ended - began).total_seconds()) if began is not None and ended is not None else None
            words = f" after {gap:g} s" if gap is not None else ""
            moments.append(Moment(back_at, "back", f"the API server is available again{words}"))
            lost_at = ""
    if not moments and (lost_at, gap) == (line.lost_at, line.gap):
        return line
    return Timeline((*line.moments, *moments)[-MOST_MOMENTS:], lost_at, gap)


def _moments(old: Shoot | None, new: Shoot, now: str) -> Iterable[Moment]:
    if old is None:
        return
    if old.spec.seed_name != new.spec.seed_name and new.status.seed_name:
        target = new.spec.seed_name or "another seed"
        if new.spec.seed_name == new.status.seed_name:
            yield Moment(now, "request", f"the move is cancelled: the shoot stays on {target}")
        else:
            yield Moment(now, "request", f"a move from {new.status.seed_name} to {target} is requested")
    was, last = old.status.last_operation, new.status.last_operation
    if last is not None and (was is None or (was.type, was.state) != (last.type, last.state)):
        kind: MomentKind = "end" if last.finished else "operation"
        yield Moment(last.last_update_time or now, kind, f"{last.type} {last.state}")
    if old.status.seed_name != new.status.seed_name and old.status.seed_name and new.status.seed_name:
        yield Moment(now, "handover", f"{old.status.seed_name} has handed over to {new.status.seed_name}")
    before, after = _started(old), _started(new)
    for number in sorted(after.keys() - before.keys()):
        yield Moment(now, "operation", f"etcd of epoch {number} may start on {after[number]}")


def _started(shoot: Shoot) -> Mapping[int, str]:
    try:
        epochs = ownership.parse(shoot.metadata.annotations.get(OWNERSHIP)).epochs
    except OwnershipError:
        return {}
    return {epoch.epoch: epoch.seed for epoch in epochs if epoch.started}
