"""One cluster: machines, conditions, obstacle, progress, objects and events. Pure: from the objects of caches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from espalier.api import conditions
from espalier.api.capi.machine import Machine
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.upgrades import ControlPlaneUpgrade, MachineDeploymentUpgrade, NodeUpgrade
from espalier.api.eksa.vocabulary.reasons import STEPS as STEP_NAMES
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.meta import Tree
from espalier.api.text import redaction
from espalier.clusterapi import contract, external_etcd
from espalier.clusterapi.contract import CONTROL_PLANE_LABEL, DEPLOYMENT_NAME_LABEL
from espalier.clusterapi.machines.machine_objects import MachineObjects
from espalier.clusterapi.ownership_tree import Member, obstacle, state_of, tree_of
from espalier.clusters.design import names
from espalier.clusters.design.render_input import group_count, group_name
from espalier.clusters.effects.duration import UNKNOWN, UNKNOWN_IN_PLACE, median, seconds_to_ready
from espalier.clusters.effects.upgrade_progress import GroupUpgrade, progress_of
from espalier.clusters.observe.scope import read as read_cluster
from espalier.dashboard.models.health import Health, State, advice, needs_a_person
from espalier.kube.objects import Object, readable
from espalier.upgrades.node.containers import ONLY_CERTIFICATES, STEPS
from espalier.upgrades.under_way import is_under_way

MOST_MACHINES = 500
MOST_OBJECTS = 1000
MOST_EVENTS = 30
CONTROL_PLANE = "control plane"
ETCD = "etcd"


class UpgradeStep(NamedTuple):
    """A step of an upgrade in place."""

    text: str
    state: str
    """done, current, failed or open."""


class MachineRow(msgspec.Struct, frozen=True):
    """A machine."""

    name: str
    group: str
    state: State
    version: str = ""
    target: str = ""
    """The version that it gets in place; empty if it gets none."""
    since: str = ""
    created: str = ""
    node: str = ""
    steps: tuple[UpgradeStep, ...] = ()
    message: str = ""


class Progress(NamedTuple):
    """How far a change of machines is."""

    words: str
    done: int
    total: int
    began: str
    """RFC 3339; empty if unknown."""
    ends: str
    """An estimate; empty without one."""
    assumption: str
    """The basis of the estimate, unless machines of the cluster were measured."""


class ConditionRow(NamedTuple):
    """A condition, with what its reason means and takes."""

    type: str
    status: str
    reason: str
    message: str
    since: str
    meaning: str
    takes: str


class ObjectRow(NamedTuple):
    """An object of the cluster, in the tree of all."""

    depth: int
    kind: str
    name: str
    version: str
    state: State | None
    since: str
    message: str


class EventRow(NamedTuple):
    """An event of the Cluster."""

    time: str
    type: str
    reason: str
    message: str
    times: int


class Obstacle(NamedTuple):
    """The one object that blocks progress."""

    kind: str
    name: str
    message: str


class ClusterPage(msgspec.Struct, frozen=True):
    """All that is shown of one cluster."""

    machines: tuple[MachineRow, ...] = ()
    more_machines: int = 0
    progress: Progress | None = None
    conditions: tuple[ConditionRow, ...] = ()
    obstacle: Obstacle | None = None
    objects: tuple[ObjectRow, ...] = ()
    more_objects: int = 0
    events: tuple[EventRow, ...] = ()


class Parts(NamedTuple):
    """The objects of a cluster: its Cluster, those of Cluster API and of upgrades, its events."""

    cluster: Object
    objects: Sequence[Object]
    events: Sequence[Object]


def page_of(parts: Parts, now: datetime) -> ClusterPage:
    """The page of a cluster."""
    root, trees = parts.cluster.tree, [_named(object_) for object_ in parts.objects]
    secrets = redaction.secrets_of(*(tree.get("spec") for tree in (root, *trees)))
    root, *trees = [tree | {"status": redaction.all_concealed(tree.get("status"), secrets)} for tree in (root, *trees)]
    events = [redaction.all_concealed(event.tree, secrets) for event in parts.events]
    tree = tree_of(root, trees)
    machines = _machines(parts.objects, root["metadata"]["name"], now)
    blocking = obstacle(tree)
    objects = list(_objects(tree))
    return ClusterPage(
        machines=tuple(machines[:MOST_MACHINES]),
        more_machines=max(0, len(machines) - MOST_MACHINES),
        progress=_progress(parts, machines, now),
        conditions=tuple(_conditions(root)),
        obstacle=None
        if blocking is None or blocking is tree or is_under_way(blocking)
        else Obstacle(blocking.kind, blocking.name, blocking.state.sentence or f"is {blocking.state.text}"),
        objects=tuple(objects[:MOST_OBJECTS]),
        more_objects=max(0, len(objects) - MOST_OBJECTS),
        events=tuple(_events(events, root["metadata"].get("uid", ""))),
    )


def _named(object_: Object) -> Tree:
    return {**object_.tree, "apiVersion": object_.head.api_version, "kind": object_.kind}


def _of(objects: Iterable[Object], kind: type[Any]) -> list[Object]:
    return [
        each for each in objects if (each.head.api_version, each.kind) == (kind.resource.api_version, kind.__name__)
    ]


# Machines


def _machines(objects: Sequence[Object], cluster: str, now: datetime) -> list[MachineRow]:
    unfinished = [each for each in readable(_of(objects, NodeUpgrade), NodeUpgrade) if not each.is_completed]
    upgrades = {each.spec.machine.name: each for each in unfinished}
    rows = [
        _machine(object_, machine, cluster, upgrades.get(object_.name))
        for object_ in _of(objects, Machine)
        for machine in readable([object_], Machine)
    ]
    ranks = {CONTROL_PLANE: 0, ETCD: 1}
    return sorted(rows, key=lambda row: (ranks.get(row.group, 2), row.group, row.created, row.name))


def _machine(object_: Object, machine: Machine, cluster: str, upgrade: NodeUpgrade | None) -> MachineRow:
    metadata, status = machine.metadata, machine.status
    labels = metadata.labels
    if CONTROL_PLANE_LABEL in labels:
        group = CONTROL_PLANE
    elif external_etcd.MACHINE_LABEL in labels:
        group = ETCD
    else:
        group = labels.get(DEPLOYMENT_NAME_LABEL, "").removeprefix(f"{cluster}-")
    own = state_of(_named(object_))
    in_place = upgrade if upgrade is not None and not upgrade.is_completed else None
    state, message = _state_of_machine(machine, own.status, own.sentence, in_place)
    return MachineRow(
        machine.metadata.name,
        group,
        state,
        version=str(status.node_info.get("kubeletVersion") or machine.spec.version),
        target=in_place.spec.kubernetes_version if in_place is not None else "",
        since=own.since,
        created=metadata.creation_timestamp or "",
        node=status.node_ref.name if status.node_ref is not None else "",
        steps=tuple(_steps(in_place)) if in_place is not None else (),
        message=message,
    )


def _state_of_machine(machine: Machine, ready: str, sentence: str, upgrade: NodeUpgrade | None) -> tuple[State, str]:
    if machine.metadata.deletion_timestamp is not None:
        return State(Health.CHANGING, "Being removed"), sentence
    if upgrade is not None:
        condition = conditions.get(upgrade.status.conditions, "Ready")
        if condition is not None and needs_a_person(condition.reason):
            what = "Renewal failed" if upgrade.spec.certificates_only else "Upgrade failed"
            return State(Health.FAILING, what), condition.message
        what = "Renewing certificates" if upgrade.spec.certificates_only else "Upgrading"
        return State(Health.CHANGING, what), condition.message if condition is not None else ""
    if ready == "True":
        if contract.is_outdated(machine):
            return State(Health.CHANGING, "Outdated"), "ready, and to be replaced or upgraded"
        return State(Health.READY, "Ready"), ""
    if machine.status.phase in ("", "Pending", "Provisioning", "Provisioned"):
        return State(Health.CHANGING, "Being made"), sentence
    return State(Health.FAILING if ready == "False" else Health.UNKNOWN, "Not ready"), sentence


def _steps(upgrade: NodeUpgrade) -> Iterator[UpgradeStep]:
    """The steps, as `espalier upgrades describe` lists them."""
    ready = conditions.get(upgrade.status.conditions, "Ready")
    reported = {condition.type: condition for condition in upgrade.status.conditions}
    reason = ready.reason if ready is not None else ""
    for step in ONLY_CERTIFICATES if upgrade.spec.certificates_only else STEPS:
        condition = reported.get(step.condition)
        text = STEP_NAMES.get(step.doing, step.meaning)
        if condition is not None and condition.status == "True":
            yield UpgradeStep(text, "done")
        elif reason == step.doing:
            yield UpgradeStep(text, "current")
        elif reason == f"{step.doing}Failed":
            yield UpgradeStep(text, "failed")
        else:
            yield UpgradeStep(text, "open")


# Progress


def _progress(parts: Parts, machines: Sequence[MachineRow], now: datetime) -> Progress | None:
    """The progress of a change of machines: none for a cluster that is ready."""
    try:
        cluster = read_cluster(parts.cluster)
    except msgspec.ValidationError:
        return None
    ready = conditions.get(cluster.status.conditions, "Ready")
    if ready is None or (ready.status == "True" and all(row.state.health is Health.READY for row in machines)):
        return None
    began = ready.last_transition_time if ready.status != "True" else ""
    typed = [*readable(_of(parts.objects, Machine), Machine)]
    groups: list[GroupUpgrade] = [*readable(_of(parts.objects, ControlPlaneUpgrade), ControlPlaneUpgrade)]
    groups += readable(_of(parts.objects, MachineDeploymentUpgrade), MachineDeploymentUpgrade)
    nodes = [*readable(_of(parts.objects, NodeUpgrade), NodeUpgrade)]
    in_place = progress_of(cluster, typed, groups, nodes, now)
    if in_place is not None and in_place.done < in_place.total:
        is_held = needs_a_person(ready.reason)
        assumption = "" if in_place.is_measured else f"assuming {UNKNOWN_IN_PLACE:g} s for each node"
        start = min(filter(None, (conditions.parse_timestamp(began), in_place.began)), default=None)
        return Progress(
            f"{in_place.done} of {in_place.total} nodes are upgraded in place",
            in_place.done,
            in_place.total,
            conditions.timestamp(start) if start is not None else "",
            "" if is_held else conditions.timestamp(in_place.ends),
            "" if is_held else assumption,
        )
    if needs_a_person(ready.reason):
        return None  # nobody knows when it goes on
    return _replacement(cluster, parts, machines, began, now)


def _replacement(
    cluster: Cluster, parts: Parts, machines: Sequence[MachineRow], began: str, now: datetime
) -> Progress | None:
    """The progress of machines that are made, or replaced one after another."""
    spec = cluster.spec
    wanted: dict[str, int] = {}
    versions: dict[str, str] = {}
    if spec.control_plane_configuration is not None:
        wanted[CONTROL_PLANE] = spec.control_plane_configuration.count
        versions[CONTROL_PLANE] = spec.kubernetes_version
    for group in spec.worker_node_group_configurations:
        wanted[group_name(group)] = group_count(group)
        versions[group_name(group)] = group.kubernetes_version or spec.kubernetes_version
    groups = [(row, _group_of(row, cluster.metadata.name, wanted)) for row in machines]
    good = Counter(
        name
        for row, name in groups
        if row.state.health is Health.READY and name in wanted and _has(row, versions[name])
    )
    done = {group: min(number, good[group]) for group, number in wanted.items()}
    total, finished = sum(wanted.values()), sum(done.values())
    if finished >= total:
        return None
    measured = [MachineObjects(each, None, None) for each in _of(parts.objects, Machine)]
    took = [seconds for each in measured if _fits(each) and (seconds := seconds_to_ready(each)) is not None]
    each_takes = median(took) if took else UNKNOWN
    left = {group: number - done[group] for group, number in wanted.items()}
    workers = max((number for group, number in left.items() if group != CONTROL_PLANE), default=0)
    seconds = (left.get(CONTROL_PLANE, 0) + workers) * each_takes
    return Progress(
        f"{finished} of {total} machines are as they should be",
        finished,
        total,
        began,
        conditions.timestamp(now + timedelta(seconds=seconds)),
        "" if took else f"assuming {UNKNOWN:g} s for each machine",
    )


def _group_of(row: MachineRow, cluster: str, groups: Iterable[str]) -> str:
    """The group of a machine, without its failure domain."""
    return (
        row.group
        if row.group == CONTROL_PLANE
        else names.group_of(names.machine_deployment(cluster, row.group), cluster, groups)
    )


def _has(row: MachineRow, version: str) -> bool:
    """True for a machine of a minor version: workers wait for the control plane, up to date by their own template."""
    return row.version.startswith((f"v{version}.", f"v{version}-"))


def _fits(machine: MachineObjects) -> bool:
    try:
        return bool(machine.machine)
    except msgspec.ValidationError:
        return False


# Conditions, objects, events


def _conditions(root: Tree) -> Iterator[ConditionRow]:
    for condition in _list(root.get("status"), "conditions"):
        reason = str(condition.get("reason", ""))
        status = str(condition.get("status", ""))
        meaning, takes = advice(reason) if status != "True" or condition.get("type") in _NEGATIVE else ("", "")
        yield ConditionRow(
            str(condition.get("type", "")),
            status,
            reason,
            str(condition.get("message", "")),
            str(condition.get("lastTransitionTime", "")),
            meaning,
            takes,
        )


_NEGATIVE = ("Reconciling", "Stalled", "Moving")
"""Conditions of a Cluster that are True while something is under way, or wrong."""


def health_of(row: ConditionRow) -> Health:
    """The state that a condition stands for."""
    if row.type in _NEGATIVE:
        bad = Health.FAILING if row.type == "Stalled" else Health.CHANGING
        return bad if row.status == "True" else Health.READY
    if row.status == "True":
        return Health.READY
    if row.status != "False":
        return Health.UNKNOWN
    if row.reason == Reason.DRIFTED or needs_a_person(row.reason):
        return Health.FAILING
    return Health.CHANGING


def _objects(member: Member, depth: int = 0) -> Iterator[ObjectRow]:
    if not member.kind.endswith("Template"):
        state = member.state
        yield ObjectRow(
            depth, member.kind, member.name, member.version, _state_of_object(member), state.since, state.sentence
        )
    for child in member.children:
        yield from _objects(child, depth + 1)


def _state_of_object(member: Member) -> State | None:
    state = member.state
    if not state.status and not state.busy:
        return None
    if state.is_healthy:
        return State(Health.READY, "Ready")
    if state.busy:
        return State(Health.PAUSED if state.busy == ("Paused",) else Health.CHANGING, ", ".join(state.busy))
    if is_under_way(member):
        return State(Health.CHANGING, "Under way")
    return State(Health.FAILING if state.status == "False" else Health.UNKNOWN, "Not ready")


def _events(events: Iterable[Mapping[str, Any]], uid: str) -> list[EventRow]:
    """The last events, newest first."""
    rows = []
    for event in events:
        about = event.get("involvedObject") or {}
        if isinstance(about, dict) and about.get("uid") in (uid, None):
            series = event.get("series")
            metadata = event.get("metadata") or {}
            time = (
                (series.get("lastObservedTime") if isinstance(series, dict) else "")
                or event.get("lastTimestamp")
                or event.get("eventTime")
                or metadata.get("creationTimestamp", "")
            )
            number = (series.get("count") if isinstance(series, dict) else 0) or event.get("count") or 1
            rows.append(
                EventRow(
                    str(time),
                    str(event.get("type", "")),
                    str(event.get("reason", "")),
                    str(event.get("message", "")),
                    number if isinstance(number, int) else 1,
                )
            )
    return sorted(rows, reverse=True)[:MOST_EVENTS]


def _list(tree: object, name: str) -> list[Mapping[str, Any]]:
    values = tree.get(name) if isinstance(tree, dict) else None
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []
