"""`espalier describe cluster NAME`: the tree of its objects, and the one thing that blocks progress on top."""

from __future__ import annotations

import asyncio
import textwrap
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from difflib import SequenceMatcher

import click
import msgspec

from espalier.api import conditions as condition_list
from espalier.api.capi.machine import Machine
from espalier.api.core import CORE_EVENT
from espalier.api.eksa.cluster import Cluster, ClusterSpec
from espalier.api.eksa.releases.release import Bundles, BundlesRef, EKSARelease
from espalier.api.eksa.upgrades import ControlPlaneUpgrade, MachineDeploymentUpgrade, NodeUpgrade
from espalier.api.eksa.vocabulary.group import GROUP, MOVE_ANNOTATION, PAUSED_ANNOTATION, SYSTEM_NAMESPACE, VERSION
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.kinds import KubeObject
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.api.text import redaction
from espalier.api.text.printable import quoted
from espalier.cli.clusters.reports import upgrade_progress
from espalier.cli.kit import flags
from espalier.cli.kit.commands import Group
from espalier.cli.kit.connecting import connection
from espalier.cli.kit.events import age, oldest_first, time_of
from espalier.cli.kit.failures import Failure, Usage
from espalier.cli.kit.follow import follow, pause
from espalier.cli.kit.printing import output
from espalier.cli.kit.printing.layout import LONGEST, Table
from espalier.cli.kit.printing.tables import Selection, watch_objects
from espalier.clusterapi.contract import CLUSTER_NAME_LABEL
from espalier.clusterapi.ownership_tree import Member, State, obstacle, tree_of
from espalier.clusters.design.names import is_paused_by_command
from espalier.clusters.observe.rules.messages import BEING_WRITTEN, CHANGED_BY_UPGRADE, WITHOUT_MACHINES
from espalier.clusters.observe.scope import read as read_cluster
from espalier.kube.client import Client
from espalier.kube.discovery import Discovery
from espalier.kube.errors import Forbidden, NotFound, Unreachable
from espalier.kube.objects import Object
from espalier.providers import links
from espalier.providers.kinds import CATALOG
from espalier.releases import UnknownKubernetesVersion, release_name, resolve
from espalier.releases.contents import support_text
from espalier.upgrades.under_way import is_under_way

LAST_EVENTS = 8

OBJECTS = Table(("Object", "Version", "State", "Since", "Message"), sentences=(4,), lists=(0,))
UPGRADES: tuple[type[KubeObject], ...] = (ControlPlaneUpgrade, MachineDeploymentUpgrade, NodeUpgrade)
FOLDED = ("Machine", "NodeUpgrade")
"""Kinds of which equal healthy objects share a line."""
ABOVE = "as above"
_SHORT = 80
"""Characters of an event's message that is printed again rather than referred to: the reader need not search."""
EVENTS = Table(("Age", "Type", "Reason", "Event"), sentences=(3,))


@click.group(cls=Group)
def describe() -> None:
    """Show the objects of a cluster, and what it waits for."""


@describe.command()
@click.argument("name", help="Name of the cluster.")
@flags.connection
@click.option("--all", "show_all", is_flag=True, help="Show every object, including templates and healthy machines.")
@click.option("--watch", "-w", is_flag=True, help="Show it anew with each change, until Ctrl-C or its deletion.")
@flags.output()
async def cluster(name: str, *, connect: flags.Connection, show_all: bool, watch: bool, output_format: str) -> None:
    """Show the objects of a cluster as a tree, the one thing that blocks progress on top, and its last events.

    With -o json or yaml: `obstacle` (or null), `tree` with `children`, `events` and `supportEnds`.

    \b
    Examples:
      espalier describe cluster garden
      espalier describe cluster garden --watch
    """
    if watch and output_format:
        raise Usage(f"found --watch and -o {output_format}; `espalier get clusters NAME -w -o json` is for programs")
    async with connection.connect(connect) as connected:
        client, key = connected.client, Key(connected.namespace, name)
        described = await _described(client, key)
        if described is None:
            raise Failure(
                f'cluster "{name}" does not exist in namespace {connected.namespace}; '
                "`espalier get clusters -A` shows those that do"
            )
        if not watch:
            await _show(client, described, show_all=show_all, output_format=output_format)
            return

        async def show() -> bool:
            described = await _described(client, key)
            if described is None:
                output.say(f'cluster "{name}" is gone')
                return False
            if output.console().is_terminal:
                output.console().clear()
            output.say(f"{datetime.now():%H:%M:%S}  shown anew with each change; Ctrl-C ends it\n")
            await _show(client, described, show_all=show_all, output_format="")
            output.say()
            return True

        await at_each_change(client, key, show)


async def _described(client: Client, key: Key) -> Object | None:
    try:
        return await client.get(Cluster.resource, key.name, key.namespace)
    except NotFound as error:
        if error.is_of_kind:
            raise
        return None


async def at_each_change(client: Client, key: Key, show: Callable[[], Awaitable[bool]]) -> None:
    """Call `show` at once, and after each change of a Cluster or one of its Machines, at most once in a second, until
    it returns False.
    """
    changed = asyncio.Event()

    async def itself() -> None:
        async for _ in follow(client, Cluster.resource, key):
            changed.set()

    async def machines() -> None:
        selection = Selection(Machine.resource, SYSTEM_NAMESPACE, labels=f"{CLUSTER_NAME_LABEL}={key.name}")
        with suppress(Forbidden, NotFound):  # then the Cluster alone tells
            while True:
                began = asyncio.get_running_loop().time()
                with suppress(Unreachable):  # the other watch says when it is away for long
                    async for _ in watch_objects(client, selection):
                        changed.set()
                await pause(began)

    try:
        async with asyncio.TaskGroup() as tasks:
            watches = [tasks.create_task(itself()), tasks.create_task(machines())]
            while True:
                began = asyncio.get_running_loop().time()
                with suppress(Unreachable):  # what was shown stays
                    if not await show():
                        break
                await pause(began)
                await changed.wait()
                changed.clear()
            for task in watches:
                task.cancel()
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None


async def _show(client: Client, described: Object, *, show_all: bool, output_format: str) -> None:
    root, now = described.tree, datetime.now(UTC)
    hidden: set[str] = set()
    objects, events, supported, upgrade = await asyncio.gather(
        _objects(client, root, hidden),
        _events(client, root, hidden),
        _end_of_support(client, root),
        _upgrade(client, described, now),
    )
    secrets = redaction.secrets_of(*(tree.get("spec") for tree in (root, *objects)))
    root, *objects = [
        tree | {"status": redaction.all_concealed(tree.get("status") or {}, secrets)} for tree in (root, *objects)
    ]
    events, upgrade = redaction.all_concealed(events, secrets), redaction.all_concealed(upgrade, secrets)
    cluster_member = tree_of(root, objects)
    if output_format:
        output.write_facts(_facts(cluster_member, events) | {"supportEnds": supported}, output_format)
        return
    width = output.width() or 0
    messages = Messages()
    top = [*_top(cluster_member, support_text(supported, now), now, upgrade, messages)]
    output.say("\n".join(line for fact in top for line in within(quoted(fact, LONGEST), width)) + "\n")
    lines = [*_lines(cluster_member, show_all=show_all)]
    output.write_table(OBJECTS, [_row(line, members, now, messages) for line, members in lines])
    if hidden:
        output.say_wrapped(f"\nNot shown, as you may not read them: {', '.join(sorted(hidden))}", stderr=True)
    if events:
        output.say()
        rows = [_event_row(event, now, messages) for event in events]
        output.write_table(EVENTS, rows)


async def _objects(client: Client, root: Tree, hidden: set[str]) -> list[Tree]:
    """All readable objects of a cluster, whatever its provider; adds the kinds that may not be read to `hidden`."""
    name = root["metadata"]["name"]
    served = await Discovery(client).resources()
    wanted: dict[tuple[str, str], Resource] = {}
    for item in served:
        if "cluster-api" in item.categories and item.resource.namespaced and "list" in item.verbs:
            wanted.setdefault((item.resource.group, item.resource.plural), item.resource)

    async def read(resource: Resource) -> list[Tree]:
        try:
            listed = await client.list(resource, SYSTEM_NAMESPACE, labels=f"{CLUSTER_NAME_LABEL}={name}")
        except Forbidden:
            hidden.add(resource.kind)
            return []
        return [{**item.tree, "apiVersion": resource.api_version, "kind": resource.kind} for item in listed.items]

    upgrades = [kind.resource for kind in UPGRADES if kind.resource in {item.resource for item in served}]
    lists = await asyncio.gather(
        *(read(resource) for resource in (*wanted.values(), *upgrades)), _linked(client, root, hidden)
    )
    return [tree for trees in lists for tree in trees]


async def _linked(client: Client, root: Tree, hidden: set[str]) -> list[Tree]:
    """The datacenter and the machine configs of a Cluster, and what these name; of kinds that may be read."""

    async def read(kind: str, name: str) -> list[Tree]:
        try:
            resource = CATALOG.resource_of(f"{GROUP}/{VERSION}", kind)
            return [(await client.get(resource, name, root["metadata"]["namespace"])).tree]
        except Forbidden:
            hidden.add(kind)
            return []
        except (KeyError, NotFound):
            return []

    async def read_all(references: Iterable[Tree]) -> list[Tree]:
        named = dict.fromkeys((str(reference.get("kind")), str(reference.get("name"))) for reference in references)
        lists = await asyncio.gather(*(read(*reference) for reference in named))
        return [tree for trees in lists for tree in trees]

    linked = await read_all(links.references(root["spec"]))
    return [*linked, *await read_all(reference for tree in linked for reference in links.further(tree.get("spec")))]


async def _events(client: Client, root: Tree, hidden: set[str]) -> list[Tree]:
    """The last events of the Cluster, oldest first; if they may not be read, adds their kind to `hidden`."""
    metadata = root["metadata"]
    fields = f"involvedObject.name={metadata['name']},involvedObject.kind=Cluster"
    try:
        listed = await client.list(CORE_EVENT, metadata["namespace"], fields=fields)
    except Forbidden:
        hidden.add(CORE_EVENT.kind)
        return []
    trees = [item.tree for item in listed.items]
    ours = [tree for tree in trees if tree["involvedObject"].get("uid") == metadata["uid"]]
    return oldest_first(ours)[-LAST_EVENTS:]


class Messages:
    """Prints each message once: an object that repeats what was said, as owners do, refers to it."""

    def __init__(self) -> None:
        self._printed: list[str] = []

    def once(self, sentence: str, message: str = "") -> str:
        """The sentence; `as above` if its message was part of an earlier one."""
        parts = [" ".join(line.lstrip("* ").split()) for line in (message or sentence).splitlines()]
        if any(parts) and all(any(part in printed for printed in self._printed) for part in parts):
            return ABOVE
        self._printed.append(" ".join(sentence.split()))
        return sentence


def _top(member: Member, supported: str, now: datetime, upgrade: str, messages: Messages) -> Iterator[str]:
    """Summary, one fact for each line."""
    metadata, spec, state = member.tree["metadata"], member.tree["spec"], member.state
    release = spec.get("eksaVersion") or (spec.get("bundlesRef") or {}).get("name") or "none yet"
    yield f"Cluster   {metadata['namespace']}/{metadata['name']}"
    yield f"Release   {release}, Kubernetes {spec.get('kubernetesVersion', 'not said')}{supported}"
    since = f" for {age(state.since, now)}" if state.since else ""
    blocking = obstacle(member)
    if blocking is member or (blocking is not None and is_under_way(blocking)):
        blocking = None
    if upgrade and state.reason == Reason.IN_PLACE_UPGRADE_IN_PROGRESS and "nodes are upgraded" in state.message:
        text = state.reason  # the line of the upgrade counts all nodes, and names their steps
    elif blocking is not None and _says_more(blocking.state.message, state.message):
        text = ""
    else:
        text = messages.once(state.sentence or state.message, state.message)
    yield f"Ready     {state.status or 'not reported yet'}{since}{': ' + text if text else ''}"
    annotations = metadata.get("annotations") or {}
    if PAUSED_ANNOTATION in annotations or MOVE_ANNOTATION in annotations:
        yield f"Paused    {messages.once(_pause(member, annotations))}"
    if upgrade:
        yield f"Upgrade   {messages.once(upgrade)}"
    if blocking is not None:
        sentence = blocking.state.sentence
        if not sentence:
            why = _without_a_message(blocking.state)
        elif _says_more(state.message, blocking.state.message):
            why = ABOVE
        else:
            why = messages.once(sentence, blocking.state.message)
        yield f"Blocked   by {blocking.kind} {blocking.name}{f', {ABOVE}' if why == ABOVE else f': {why}'}"


_NEARLY = 0.75
"""Share of equal words from which two messages say the same."""


def _says_more(message: str, other: str) -> bool:
    """True if a message is longer than another that says the same."""
    message, other = message[:LONGEST], other[:LONGEST]
    words, fewer = message.replace("* ", "").split(), other.replace("* ", "").split()
    if not fewer or len(" ".join(words)) <= len(" ".join(fewer)):
        return False
    return " ".join(fewer) in " ".join(words) or SequenceMatcher(None, words, fewer).ratio() >= _NEARLY


BEING_MOVED = (
    "the cluster is being moved to another management cluster, and neither acts on it: give `espalier move` again, at "
    "the source or with --from-folder, to go on, or with --back to take the move back"
)


def _pause(member: Member, annotations: Mapping[str, str]) -> str:
    """The reason of the pause, and the way out: conditions say so only once a manager has seen a change."""
    if MOVE_ANNOTATION in annotations:
        return BEING_MOVED
    manager = (member.tree["spec"].get("managementCluster") or {}).get("name") or ""
    if manager in ("", member.name):
        has_machines = any(child.kind == "Cluster.cluster.x-k8s.io" for child in member.children)
        return CHANGED_BY_UPGRADE if has_machines else WITHOUT_MACHINES
    if is_paused_by_command(annotations):
        return BEING_WRITTEN
    return f"nothing is done until annotation {PAUSED_ANNOTATION} is removed"


def _without_a_message(state: State) -> str:
    return ", ".join(state.busy) if state.status == "True" else f"is {state.text}"


def within(fact: str, width: int) -> list[str]:
    """The number of terminal lines that a fact takes below its value; 1 for 0."""
    if not width:
        return [fact]
    blank = " " * len("Cluster   ")
    return textwrap.wrap(fact, width, subsequent_indent=blank, break_long_words=False, break_on_hyphens=False)


def _lines(
    member: Member, *, show_all: bool, before: str = "", below: str = ""
) -> Iterator[tuple[str, Sequence[Member]]]:
    """The lines of the tree, each with its members. Equal healthy members share a line."""
    yield f"{before}{member.kind} {member.name}", [member]
    folded = not show_all and member.kind in FOLDED and member.is_healthy
    groups = [] if folded else list(_groups(member.children, show_all=show_all))
    for at, group in enumerate(groups):
        last = at == len(groups) - 1
        branch, further = ("└─ ", "   ") if last else ("├─ ", "│  ")
        if len(group) > 1:
            names = ", ".join(member.name for member in group)
            yield f"{below}{branch}{len(group)} {group[0].kind}s {names}", group
        else:
            yield from _lines(group[0], show_all=show_all, before=below + branch, below=below + further)


def _groups(children: Sequence[Member], *, show_all: bool) -> Iterator[list[Member]]:
    well: dict[tuple[str, str], list[Member]] = {}
    for child in children:
        if not show_all and child.kind.endswith("Template"):
            continue
        if show_all or not child.is_healthy or child.kind not in FOLDED:
            yield [child]
        elif (like := (child.kind, child.version)) in well:
            well[like].append(child)
        else:
            well[like] = [child]
            yield well[like]


def _row(line: str, members: Sequence[Member], now: datetime, messages: Messages) -> tuple[str, str, str, str, str]:
    states = [member.state for member in members]
    since = max((state.since for state in states if state.since), default="")
    sentence = states[0].sentence
    text = messages.once(sentence, states[0].message) if sentence else "-"
    return line, members[0].version or "-", states[0].text or "-", age(since, now) or "-", text


def _event_row(event: Tree, now: datetime, messages: Messages) -> tuple[str, str, str, str]:
    message = event["message"]
    shown = message if len(message) <= _SHORT else messages.once(message)
    return age(time_of(event), now), event["type"], event["reason"], shown


async def _upgrade(client: Client, described: Object, now: datetime) -> str:
    """The progress of the upgrade of its nodes in place; empty without one, and for whoever may not read it."""
    try:
        cluster = read_cluster(described)
        progress = await upgrade_progress.read(client, cluster, now)
    except (Forbidden, NotFound, ValueError):
        return ""
    ready = condition_list.get(cluster.status.conditions, "Ready")
    if progress is None or ready is None or ready.status == "True":
        return ""
    return progress.sentence(now, condition_list.parse_timestamp(ready.last_transition_time))


def _facts(root: Member, events: Sequence[Tree]) -> Tree:
    def facts(member: Member) -> Tree:
        metadata, state = member.tree["metadata"], member.state
        tree: Tree = {
            "apiVersion": member.tree["apiVersion"],
            "kind": member.tree["kind"],
            "namespace": metadata.get("namespace", ""),
            "name": metadata["name"],
            "version": member.version,
            "status": state.status,
            "busy": list(state.busy),
            "reason": state.reason,
            "message": state.message,
            "since": state.since,
        }
        return tree | ({"children": [facts(child) for child in member.children]} if member.children else {})

    blocking = obstacle(root)
    top = {name: value for name, value in facts(blocking).items() if name != "children"} if blocking else None
    shown = [{name: event.get(name) for name in ("type", "reason", "message")} for event in events]
    for fact, event in zip(shown, events, strict=True):
        fact["time"] = time_of(event)
    return {"obstacle": top, "tree": facts(root), "events": shown}


async def _end_of_support(client: Client, cluster: Tree) -> str:
    """When support of its Kubernetes version ends; empty if unknown or unreadable."""
    try:
        spec = msgspec.convert(cluster["spec"], ClusterSpec)
        reference = spec.bundles_ref or await _bundles_of(client, spec.eksa_version or "")
        bundles = await client.get(Bundles.resource, reference.name, reference.namespace)
        return resolve(bundles.decode(Bundles), spec.kubernetes_version).end_of_standard_support
    except (Forbidden, NotFound, UnknownKubernetesVersion, ValueError):  # also if the object does not exist
        return ""


async def _bundles_of(client: Client, eksa_version: str) -> BundlesRef:
    release = await client.get(EKSARelease.resource, release_name(eksa_version))
    return release.decode(EKSARelease).spec.bundles_ref
