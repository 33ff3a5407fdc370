"""A plan, compared with what happens when its manifest is applied."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from espalier.api.manifests.manifests import read_manifests
from espalier.api.meta import Tree
from espalier.api.text import paths, redaction
from espalier.clusters.effects.diff import ObjectChange
from espalier.clusters.observe.observe import ClusterObserver
from espalier.clusters.preview import reading
from espalier.clusters.preview.previews import Preview, Previews
from espalier.kube.client import Client
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.providers.kinds import CATALOG
from espalier.providers.registry import PROVIDERS
from espalier.runtime.caches.snapshot import Snapshot
from tests.support.environments.managed_environment import EXAMPLES, GARDEN, NAMESPACE, ManagedEnvironment
from tests.support.histories.recorded_history import Happened, Leaves, compared

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


async def previews(env: ManagedEnvironment, *versions: str, **manager: Any) -> Previews:
    """As `espalier plan` makes them: everything is read anew. `manager` says how the one asked about is run."""
    reader = Client(InProcessTransport(env.server), user_agent="plan")
    there = await reading.read(reader, [GARDEN], versions=versions, providers=PROVIDERS)
    asked = {(verb, plural) for verb, plural, _, agent in env.server.requests if agent == "plan"}
    assert {verb for verb, _ in asked} <= {"get", "list"}
    assert {plural for _, plural in asked} <= {resource.plural for resource in reading.kinds(PROVIDERS)}
    assert ("list", "secrets") not in asked
    snapshot = Snapshot()
    observer = ClusterObserver(snapshot, providers=PROVIDERS, **manager)
    snapshot.fill(there.objects)
    return Previews(snapshot, observer, there.fleets, now=EPOCH, secrets=there.secrets)


async def planned(env: ManagedEnvironment, manifest: list[Tree], **manager: Any) -> Preview:
    """The preview of a manifest."""
    cluster = next(tree for tree in manifest if tree["kind"] == "Cluster")
    versions = [cluster["spec"]["eksaVersion"]] if "eksaVersion" in cluster["spec"] else []
    return (await previews(env, *versions, **manager)).of_change(GARDEN, copy.deepcopy(manifest))


def manifest_of_the_example() -> list[Tree]:
    trees = [document.tree for document in read_manifests((EXAMPLES / "docker.yaml").read_bytes(), source="docker")]
    for tree in trees:
        tree["metadata"]["namespace"] = NAMESPACE
    return sorted(trees, key=lambda tree: tree["kind"] == "Cluster")


async def apply(env: ManagedEnvironment, manifest: list[Tree]) -> None:
    for tree in manifest:
        await env.client.apply(CATALOG.resource_of(tree["apiVersion"], tree["kind"]), tree, field_manager="kubectl")


def leaves_of_change(change: ObjectChange) -> Leaves:
    results: Leaves = {}
    for field, old, new in change.fields:
        path = tuple(str(step) for step in paths.parse(field))
        results |= compared(old, new, path)
    return results


def as_shown(leaves: Leaves) -> Leaves:
    """The leaves that a watch saw, hidden where a plan hides them."""
    return {path: (redaction.shown(path, old), redaction.shown(path, new)) for path, (old, new) in leaves.items()}


def assert_so(preview: Preview, happened: Happened) -> None:
    """Objects, fields, and machines in their order."""
    by_verb: dict[str, dict[tuple[str, str], ObjectChange]] = {"create": {}, "change": {}, "delete": {}}
    for change in preview.objects:
        by_verb[change.verb][change.kind, change.name] = change
    assert by_verb["create"].keys() == happened.created
    assert by_verb["delete"].keys() == happened.deleted
    assert {key: leaves_of_change(change) for key, change in by_verb["change"].items()} == {
        key: as_shown(leaves) for key, leaves in happened.changed.items()
    }
    assert {group.name: group.coming for group in preview.groups if group.coming} == happened.coming
    assert_in_order(preview, happened.going)
    assert_shipped(preview, happened)


def assert_in_order(preview: Preview, going: Mapping[str, list[tuple[float, str]]]) -> None:
    foreseen = {group.name: [machine.name for machine in group.going] for group in preview.groups if group.going}
    assert {name: Counter(machines) for name, machines in foreseen.items()} == {
        name: Counter(machine for _, machine in machines) for name, machines in going.items()
    }
    for name, machines in foreseen.items():
        when = {machine: moment for moment, machine in going[name]}
        moments = [when[machine] for machine in machines]
        assert moments == sorted(moments), f"{name}: {machines} went at {moments}"
    if preview.workers_wait and "" in going and len(going) > 1:
        last = max(moment for moment, _ in going[""])
        assert all(moment >= last for name, moments in going.items() if name for moment, _ in moments)


def assert_shipped(preview: Preview, happened: Happened) -> None:
    """The workload cluster isn't read for a plan: what was applied is compared with what will be.

    So fields that its API server had filled in are "nothing" before, and may be said to change to what they are.
    """
    if preview.cni is not None and not preview.cni.is_exact:
        return  # another CNI: what earlier ones left there is not known
    changed = [change for change in preview.cni.objects if change.verb == "change"] if preview.cni else []
    expected = {(change.kind, change.name): leaves_of_change(change) for change in changed if change.namespace}
    seen = {key: as_shown(leaves) for key, leaves in happened.shipped.items()}
    assert seen.keys() <= expected.keys()
    for key, leaves in expected.items():
        for path, (old, new) in leaves.items():
            if path in seen.get(key, {}):
                before, after = seen[key][path]
                assert (after, old) == (new, before if old is not None else None), path
            else:
                assert old is None
                assert happened.shipped_after[key][path] == new
        assert seen.get(key, {}).keys() <= leaves.keys()
