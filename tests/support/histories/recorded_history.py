"""The actual history of a cluster's objects and machines, as a watch of the API server reports it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from espalier.api.capi.machine import Machine
from espalier.api.core import CONFIG_MAP, DAEMON_SET, DEPLOYMENT, SECRET, Secret
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.clusters.observe.observe import written
from espalier.kube.client import Client
from espalier.kube.objects import Object
from espalier.providers.registry import PROVIDERS
from espalier.runtime.caches.cache import Caches
from tests.support.environments.managed_environment import ManagedEnvironment

CONTROL_PLANE = "cluster.x-k8s.io/control-plane"
DEPLOYMENT_NAME = "cluster.x-k8s.io/deployment-name"
SHIPPED = (CONFIG_MAP, DAEMON_SET, DEPLOYMENT)
"""Kinds of the workload cluster in which the CNI can differ; accounts and roles are always the same."""

Leaves = dict[tuple[str, ...], tuple[Any, Any]]


@dataclass
class Happened:
    """Since a moment: objects by kind and name, leaves that differ, machines in the order in which they had to go."""

    created: set[tuple[str, str]] = field(default_factory=set)
    deleted: set[tuple[str, str]] = field(default_factory=set)
    changed: dict[tuple[str, str], Leaves] = field(default_factory=dict)
    going: dict[str, list[tuple[float, str]]] = field(default_factory=dict)
    """By group (empty: the control plane): when, and which machine."""
    coming: dict[str, int] = field(default_factory=dict)
    shipped: dict[tuple[str, str], Leaves] = field(default_factory=dict)
    """The same of the CNI's objects in the workload cluster."""
    shipped_after: dict[tuple[str, str], dict[tuple[str, ...], Any]] = field(default_factory=dict)


class Recorder:
    """Watches what the controllers write."""

    def __init__(self, env: ManagedEnvironment, client: Client) -> None:
        self._env = env
        self._caches = Caches(client)
        self._objects = {
            resource: self._caches.of(resource, SYSTEM_NAMESPACE)
            for resource in written(PROVIDERS)
            if resource != SECRET
        }
        self._machines = self._caches.of(Machine.resource, SYSTEM_NAMESPACE)
        self._loop = asyncio.get_running_loop()
        self._going: list[tuple[float, str, str]] = []
        self._came: list[tuple[str, str]] = []
        self._before: dict[tuple[str, str], Tree] = {}
        self._shipped: dict[tuple[str, str], Tree] = {}
        self._gone: set[str] = set()

    async def run(self) -> None:
        await self._caches.run()

    async def synced(self) -> None:
        await self._caches.wait_synced()
        self._machines.subscribe(self._machine)

    async def begin(self) -> None:
        """From now on."""
        self._before, self._shipped = dict(self._now()), await self._in_workload_cluster()
        self._going.clear()
        self._came.clear()

    async def end(self) -> Happened:
        """The history since `begin`."""
        await asyncio.sleep(1)  # simulated: the last events are on their way
        after, shipped = dict(self._now()), await self._in_workload_cluster()
        happened = Happened(created=after.keys() - self._before.keys(), deleted=self._before.keys() - after.keys())
        happened.changed = _differing(self._before, after)
        happened.shipped = _differing(self._shipped, shipped)
        happened.shipped_after = {key: dict(leaves_of(tree)) for key, tree in shipped.items()}
        for when, group, name in self._going:
            happened.going.setdefault(group, []).append((when, name))
        for group, _ in self._came:
            happened.coming[group] = happened.coming.get(group, 0) + 1
        return happened

    def _now(self) -> Iterator[tuple[tuple[str, str], Tree]]:
        for resource, cache in self._objects.items():
            for item in cache.list():
                tree = item.tree
                marks = {kind: tree["metadata"].get(kind, {}) for kind in ("labels", "annotations")}
                marks["annotations"].pop(metadata_keys.CNI_ANNOTATION, None)  # bookkeeping of the manager
                yield (resource.kind, item.name), {"spec": tree.get("spec", {}), "metadata": marks}

    def _machine(self, old: Object | None, new: Object | None, first: bool) -> None:
        seen = new or old
        assert seen is not None
        labels = seen.metadata.labels
        group = "" if CONTROL_PLANE in labels else labels[DEPLOYMENT_NAME]
        if old is None and not first:
            self._came.append((group, seen.name))
        leaves = new is None or new.metadata.deletion_timestamp is not None
        if leaves and seen.metadata.uid not in self._gone:
            self._gone.add(seen.metadata.uid)
            self._going.append((self._loop.time(), group, seen.name))

    async def _in_workload_cluster(self) -> dict[tuple[str, str], Tree]:
        secret = await self._env.client.get(SECRET, "garden-kubeconfig", "default")
        workload = self._env.workloads.connect(secret.decode(Secret).data["value"])
        results: dict[tuple[str, str], Tree] = {}
        for resource in SHIPPED:
            for object_ in (await workload.list(resource, "kube-system")).items:
                tree = object_.tree
                if object_.name.startswith(("kindnet", "cilium")):
                    results[resource.kind, object_.name] = {
                        part: tree[part] for part in ("spec", "data") if part in tree
                    }
        return results


@asynccontextmanager
async def recorder(env: ManagedEnvironment, client: Client) -> AsyncIterator[Recorder]:
    """A recorder that watches with a client of its own."""
    made = Recorder(env, client)
    running = asyncio.create_task(made.run(), name="recorder")
    try:
        await made.synced()
        yield made
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def leaves_of(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every value that is no container; items of lists by their name, where they have one, else the list as a whole."""
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from leaves_of(inner, (*path, name))
    elif isinstance(value, list) and value and (named := _named(value)):
        for name, inner in named.items():
            yield from leaves_of(inner, (*path, name))
    elif value is not None:
        yield path, value


def compared(old: Any, new: Any, path: tuple[str, ...] = ()) -> Leaves:
    """The leaves that differ, before and after. An empty map that gets something is told by what it gets."""
    before, after = dict(leaves_of(old, path)), dict(leaves_of(new, path))

    def holds(leaves: Mapping[tuple[str, ...], Any], above: tuple[str, ...]) -> bool:
        return any(len(leaf) > len(above) and leaf[: len(above)] == above for leaf in leaves)

    return {
        leaf: (before.get(leaf), after.get(leaf))
        for leaf in before.keys() | after.keys()
        if before.get(leaf) != after.get(leaf) and not holds(after if leaf in before else before, leaf)
    }


def _differing(before: Mapping[tuple[str, str], Tree], after: Mapping[tuple[str, str], Tree]) -> dict[Any, Leaves]:
    both = before.keys() & after.keys()
    return {key: result for key in both if (result := compared(before[key], after[key]))}


def _named(items: list[Any]) -> dict[str, Any] | None:
    for key in ("name", "path", "key"):
        if all(isinstance(item, dict) and isinstance(item.get(key), str) for item in items):
            by_name = {item[key]: item for item in items}
            return by_name if len(by_name) == len(items) else None
    return None
