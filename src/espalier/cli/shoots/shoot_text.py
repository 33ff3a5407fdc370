"""Shoots and plans of their moves as tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from espalier.api.gardener import names, ownership
from espalier.api.gardener.garden.backups import BackupEntry
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.garden.shoot_state import ShootState
from espalier.api.gardener.ownership import OwnershipError
from espalier.api.gardener.vocabulary.metadata_keys import OWNERSHIP
from espalier.api.meta import Tree
from espalier.cli.kit import events
from espalier.cli.kit.printing import output
from espalier.cli.kit.printing.layout import Table
from espalier.cli.shoots.shoot_plan import Plan, Times
from espalier.kube.objects import Object
from espalier.shoots.garden.operation_events import is_seed_silent
from espalier.shoots.garden.operations import pending_tasks

SHOOTS = Table(("Namespace", "Name", "Seed", "Operation", "State", "Progress"))
FACTS = Table(("Shoot", ""), sentences=(1,), as_written=(1,))
EPOCHS = Table(("Epoch", "Seed", "Bucket", "Started"), sentences=(3,))
ERRORS = Table(("Failing Task", "Codes", "Message"), sentences=(2,), lists=(1,))
CONDITIONS = Table(("Condition", "Status", "Reason", "Message"), sentences=(3,))
EVENTS = Table(("Age", "Type", "Reason", "Object", "Event"), sentences=(4,))
FINDINGS = Table(("Seen", "Ready", "Message"), sentences=(2,), lists=(0,))
STEPS = Table(("#", "Seed", "Step"), sentences=(2,))
TIMES = Table(("Up to", "For"), sentences=(1,))


def row(shoot: Shoot) -> tuple[str, ...]:
    """A line of a list."""
    last = shoot.status.last_operation
    operation = (last.type, last.state, f"{last.progress} %") if last is not None else ("", "", "")
    metadata, present = shoot.metadata, shoot.status.seed_name or ""
    seeds = filter(None, dict.fromkeys((present, shoot.spec.seed_name)))
    shown = (f"{seed} (silent)" if seed == present and is_seed_silent(shoot) else seed for seed in seeds)
    return metadata.namespace, metadata.name, " -> ".join(shown), *operation


def facts(shoot: Shoot) -> Iterator[tuple[str, str]]:
    """The beginning of a description."""
    last, spec, status = shoot.status.last_operation, shoot.spec, shoot.status
    silent = ", whose gardenlet has stopped renewing its Lease" if is_seed_silent(shoot) else ""
    yield "seed", f"{status.seed_name or 'none yet'}{silent}"
    if spec.seed_name != status.seed_name:
        yield "wanted seed", spec.seed_name or "to be scheduled"
    yield "technical ID", status.technical_id
    yield "Kubernetes", spec.kubernetes.version
    yield "hibernated", "yes" if status.hibernated else "no"
    if last is not None:
        yield "last operation", f"{last.type} {last.state}, {last.progress} %, at {last.last_update_time}"
        if not last.finished:
            yield "waits for", pending_tasks(shoot)


def epochs(shoot: Shoot) -> list[tuple[str, ...]]:
    """Which seeds had, and have, the shoot's etcd."""
    try:
        ownership_ = ownership.parse(shoot.metadata.annotations.get(OWNERSHIP))
    except OwnershipError as error:
        return [("?", "", "", f"annotation {OWNERSHIP}: {error}")]
    return [
        (str(epoch.epoch), epoch.seed, epoch.bucket, "yes" if epoch.started else "no") for epoch in ownership_.epochs
    ]


def errors(shoot: Shoot) -> list[tuple[str, ...]]:
    """Failing tasks."""
    return [(error.task_id, ", ".join(error.codes), error.description) for error in shoot.status.last_errors]


def conditions(shoot: Shoot) -> list[tuple[str, ...]]:
    """Conditions and constraints."""
    status = shoot.status
    return [
        (condition.type, condition.status, condition.reason, condition.message)
        for condition in (*status.conditions, *status.constraints)
    ]


def events_of(shoot: Object, recorded: Iterable[Tree]) -> list[Tree]:
    """The Events about a Shoot and what belongs to it, oldest first. An earlier Shoot of the name had others."""
    status = shoot.decode(Shoot).status
    entries = names.backup_entry(status.technical_id, status.uid) if status.technical_id and status.uid else ""
    chosen = []
    for event in recorded:
        about = event.get("involvedObject") or {}
        kind, name, uid = about.get("kind"), about.get("name"), about.get("uid")
        if (
            (kind == Shoot.resource.kind and (name, uid) == (shoot.name, shoot.metadata.uid))
            or (kind == ShootState.resource.kind and name == shoot.name)
            or (kind == BackupEntry.resource.kind and entries and name in (entries, names.SOURCE_PREFIX + entries))
        ):
            chosen.append(event)
    return events.oldest_first(chosen)


def event_row(event: Tree, now: datetime) -> tuple[str, ...]:
    """A line of a list of Events."""
    about = event["involvedObject"]
    times = events.count_of(event)
    message = str(event.get("message") or "") + (f" ({times} times)" if times > 1 else "")
    return (
        events.age(events.time_of(event), now),
        str(event.get("type") or ""),
        str(event.get("reason") or ""),
        f"{about['kind']} {about['name']}",
        message,
    )


def write_plan(plan: Plan) -> None:
    """Print a plan as text."""
    output.say(f"Move from seed {plan.source} to seed {plan.destination}")
    output.say()
    marks = {True: "yes", False: "NO", None: "?"}
    output.write_table(
        FINDINGS,
        [(finding.what, marks[finding.ready], finding.message) for finding in plan.findings],
    )
    if plan.unread:
        output.say_wrapped(f"Not read, for lack of permissions: {', '.join(plan.unread)}")
    if plan.refusals:
        return
    output.say()
    output.write_table(STEPS, [(str(number), *step) for number, step in enumerate(plan.steps, 1)])
    output.say()
    expected, other = (plan.good_case, plan.bad_case) if plan.is_source_alive else (plan.bad_case, plan.good_case)
    case = "the source works" if plan.is_source_alive else "the source has stopped renewing its Lease"
    _write_times(f"Expected API gap ({case})", expected)
    if plan.is_source_alive:
        output.say()
        _write_times("Longest API gap, if the source is lost before it hands over", other)
    output.say()
    output.say_wrapped(f"{plan.times_note} Nodes and their pods keep running.")
    output.say_wrapped(f"Data at risk: {plan.at_risk}")


def _write_times(title: str, times: Times) -> None:
    output.say(f"{title}: {times.total:g} s")
    output.write_table(TIMES, [(f"{seconds:g} s", part) for part, seconds in times.parts if seconds])
