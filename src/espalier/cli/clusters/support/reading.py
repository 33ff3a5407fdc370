"""The reads of a support bundle. A read that fails is listed with its error, and the others go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from msgspec import MsgspecError

from espalier.api import core
from espalier.api.capi import cluster as capi
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import Machine, MachineDeployment, MachineSet
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.releases.release import EKSARelease
from espalier.api.eksa.upgrades import ControlPlaneUpgrade, MachineDeploymentUpgrade, NodeUpgrade
from espalier.api.eksa.vocabulary.group import GROUP, SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.api.trees import json_trees
from espalier.cli.clusters.support import fields, masks, values
from espalier.cli.kit.failures import Failure
from espalier.clusterapi.contract import CLUSTER_NAME_LABEL
from espalier.clusterapi.installed import PROVIDER_LABEL
from espalier.kube.client import Client
from espalier.kube.discovery import Discovery
from espalier.kube.errors import KubeError, NotFound, Unreachable, error_of
from espalier.kube.objects import Object
from espalier.kube.transports.wire import Request

LOG_LINES, LOG_BYTES = 20_000, 32 * 1024**2
"""Last lines of the log of a container, and how many bytes of them at most: an answer is in memory."""
SECONDS, PROBE_SECONDS = 20.0, 5.0
"""Of one read, and of the question after a failed one if the API server answers at all: a bundle is wanted most when
it hangs."""
_KNOWN: tuple[Resource, ...] = tuple(
    kind.resource
    for kind in (
        capi.Cluster,
        KubeadmControlPlane,
        MachineDeployment,
        MachineSet,
        Machine,
        ControlPlaneUpgrade,
        MachineDeploymentUpgrade,
        NodeUpgrade,
    )
)
"""Kinds that are read where the API server can't say which it serves."""
_SHARED = (
    core.NODE,
    core.CUSTOM_RESOURCE_DEFINITION,
    core.VALIDATING_WEBHOOK_CONFIGURATION,
    core.MUTATING_WEBHOOK_CONFIGURATION,
    EKSARelease.resource,
)
"""Kinds of the management cluster itself."""
_GROUPS = (GROUP, "cluster.x-k8s.io")
"""Ends of the names of groups whose kinds are read."""


@dataclass(frozen=True)
class Unread:
    """A read that failed."""

    what: str
    error: str


@dataclass(frozen=True)
class Log:
    """A text of a program, unmasked."""

    name: str
    """Path within the bundle."""
    text: str


@dataclass
class Findings:
    """Results of all reads: admitted parts of objects, logs, and which reads failed."""

    version: Tree = field(default_factory=dict)
    objects: dict[str, list[Tree]] = field(default_factory=dict)
    """By place in the bundle."""
    secrets: list[Tree] = field(default_factory=list)
    """Names and types of Secrets."""
    logs: list[Log] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)
    public: set[str] = field(default_factory=set)
    private: set[str] = field(default_factory=set)
    values: set[str] = field(default_factory=set)
    """Of Secrets, environments and others that texts must not quote, whatever they consist of."""
    without_values: list[str] = field(default_factory=list)
    """Where Secrets were not read in full, so that texts may quote values that are not known."""
    cut: list[str] = field(default_factory=list)
    """Names of texts with more values than are taken from one: the rest of them are not in `values`."""
    reads: int = 0

    def masks(self) -> masks.Masks:
        """Masks of all that was read and stays."""
        return masks.Masks(values=self.values, private=self.private, public=self.public)


class Reader:
    """Reads a management cluster for a bundle: of one cluster, or of all (`cluster` is None)."""

    def __init__(self, client: Client, cluster: Key | None, wait: Callable[[str], None]) -> None:
        self._client = client.without_repeats()
        self._cluster = cluster
        self._wait = wait
        self._gone = ""
        self.findings = Findings()

    async def read(self) -> Findings:
        """Read all. Raises `Failure` for a cluster that does not exist."""
        await self._read_version()
        failed = len(self.findings.unread)
        clusters = await self._clusters()
        if self._cluster is None and len(self.findings.unread) > failed:
            self.findings.without_values.append("namespaces of clusters")
        for cluster in clusters:
            self._keep("clusters", Cluster.resource, cluster)
        served = await self._served()
        await self._read_linked(clusters, served)
        for resource in _cluster_api(served):
            await self._read_objects("objects", resource, *self._scope())
        for resource in _SHARED:
            await self._read_objects("management", resource)
        await self._read_objects("management", core.LEASE, SYSTEM_NAMESPACE)
        namespaces = list(dict.fromkeys([SYSTEM_NAMESPACE, *(cluster.namespace for cluster in clusters)]))
        if self._cluster is not None and self._cluster.namespace not in namespaces:
            namespaces.append(self._cluster.namespace)
        await self._read_events(namespaces)
        pods = await self._read_programs()
        # the credentials of a provider are beside its program, whose log may quote them
        await self._read_secrets(dict.fromkeys([*namespaces, *(pod.namespace for pod in pods)]))
        return self.findings

    def _scope(self) -> tuple[str | None, str]:
        if self._cluster is None:
            return None, ""
        return SYSTEM_NAMESPACE, f"{CLUSTER_NAME_LABEL}={self._cluster.name}"

    async def _read_version(self) -> None:
        async for response in self._reading("version of the API server", _once(self._version)):
            self.findings.version = response

    async def _clusters(self) -> list[Object]:
        key = self._cluster
        if key is None:
            return [item async for item in self._listed("clusters", Cluster.resource, None, "")]
        what, read = f"cluster {key}", partial(self._client.get, Cluster.resource, key.name, key.namespace)
        try:
            return [item async for item in self._reading(what, _once(read), is_needed=True)]
        except NotFound as error:
            if error.is_of_kind:
                await self._failed(what, error)
                return []
            raise Failure(
                f"NAME: found {key.name}, which does not exist in namespace {key.namespace}; "
                "`espalier get clusters -A` shows those that do, --all takes all"
            ) from None

    async def _served(self) -> list[Resource]:
        kinds: list[Resource] = []
        async for served in self._reading("kinds that the API server serves", _once(Discovery(self._client).resources)):
            kinds = list(
                dict.fromkeys(
                    entry.resource
                    for entry in served
                    if "list" in entry.verbs
                    and (entry.resource.group.endswith(_GROUPS) or "cluster-api" in entry.categories)
                )
            )
        return kinds or list(_KNOWN)

    async def _read_linked(self, clusters: Sequence[Object], served: Sequence[Resource]) -> None:
        """The datacenters, machine configs and others that Clusters name, directly or by what they name."""
        by_kind = {resource.kind: resource for resource in served if resource.group == GROUP}
        wanted = {
            (by_kind[kind], Key(cluster.namespace, name))
            for cluster in clusters
            for kind, name in _references(cluster.tree.get("spec"))
            if kind in by_kind and kind != Cluster.resource.kind
        }
        for resource in sorted({resource for resource, _ in wanted}):
            keys = {key for of, key in wanted if of == resource}
            namespace = self._cluster.namespace if self._cluster is not None else None
            async for item in self._listed(resource.group_resource, resource, namespace, ""):
                if item.key in keys:
                    self._keep("objects", resource, item)

    async def _read_objects(
        self, place: str, resource: Resource, namespace: str | None = None, labels: str = ""
    ) -> None:
        async for item in self._listed(resource.group_resource, resource, namespace, labels):
            self._keep(place, resource, item)

    async def _read_secrets(self, namespaces: Iterable[str]) -> None:
        """Names of Secrets. Their values stay in memory: they are what texts must not quote."""
        for namespace in namespaces:
            failed = len(self.findings.unread)
            async for secret in self._listed(f"Secrets of namespace {namespace}", core.SECRET, namespace, ""):
                tree = secret.tree
                self.findings.values.update(values.of_secret(tree.get("data"), self.findings.cut))
                self.findings.private.update(values.texts_of_secret(tree.get("data")))
                labels = secret.metadata.labels or {}
                if self._cluster is None or _is_of(secret, labels, self._cluster):
                    row = {"namespace": secret.namespace, "name": secret.name, "type": tree.get("type", "")}
                    self.findings.secrets.append(row)
                    self.findings.public.update((secret.namespace, secret.name))
            if len(self.findings.unread) > failed:
                self.findings.without_values.append(f"namespace {namespace}")

    async def _read_events(self, namespaces: Sequence[str]) -> None:
        names = {(tree.get("metadata") or {}).get("name") for trees in self.findings.objects.values() for tree in trees}
        for namespace in namespaces:
            async for event in self._listed(f"events of namespace {namespace}", core.CORE_EVENT, namespace, ""):
                about = (event.tree.get("involvedObject") or {}).get("name")
                if self._cluster is None or about in names:
                    self._keep("events", core.CORE_EVENT, event)

    async def _read_programs(self) -> Sequence[Object]:
        """Deployments, pods and logs of the manager, of Cluster API and of its providers."""
        pods: dict[Key, Object] = {}
        for namespace, labels in ((SYSTEM_NAMESPACE, ""), (None, PROVIDER_LABEL)):
            of = f" of namespace {namespace}" if namespace else f" with label {labels}"
            async for item in self._listed(f"Deployments{of}", core.DEPLOYMENT, namespace, labels):
                self._keep("management", core.DEPLOYMENT, item)
            async for item in self._listed(f"pods{of}", core.POD, namespace, labels):
                if item.key not in pods:
                    pods[item.key] = item
                    self._keep("management", core.POD, item)
        for pod in pods.values():
            await self._read_logs(pod)
        return list(pods.values())

    async def _read_logs(self, pod: Object) -> None:
        spec, status = pod.tree.get("spec") or {}, pod.tree.get("status") or {}
        restarted = {
            entry.get("name") for entry in status.get("containerStatuses") or () if entry.get("restartCount", 0)
        }
        for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
            name = container.get("name")
            for previous in (False, True) if name in restarted else (False,):
                query = {"container": name, "tailLines": str(LOG_LINES), "timestamps": "true"}
                query["limitBytes"] = str(LOG_BYTES)
                suffix = ".previous" if previous else ""
                query |= {"previous": "true"} if previous else {}
                what = f"log{suffix.replace('.', ' ')} of container {name} of pod {pod.key}"
                path = core.POD.path(pod.namespace, pod.name, "log")
                async for response in self._reading(what, _once(partial(self._raw, path, query))):
                    text = response.decode(errors="replace")
                    self.findings.logs.append(Log(f"logs/{pod.namespace}/{pod.name}/{name}{suffix}.log", text))

    def _keep(self, place: str, resource: Resource, item: Object) -> None:
        part = fields.admitted(
            {**item.tree, "apiVersion": resource.api_version, "kind": resource.kind}, resource.group, resource.kind
        )
        file = f"{place}/{resource.group_resource}" if place != "events" else "events"
        self.findings.objects.setdefault(file, []).append(part.tree)
        self.findings.public |= part.identifiers
        self.findings.private |= part.withheld
        self.findings.values |= part.values
        self.findings.cut += part.cut

    async def _listed(self, what: str, resource: Resource, namespace: str | None, labels: str) -> AsyncIterator[Object]:
        namespace = namespace if resource.namespaced else None

        async def pages() -> AsyncIterator[Sequence[Object]]:
            async for page in self._client.pages(resource, namespace, labels=labels):
                yield page.items

        async for items in self._reading(what, pages()):
            for item in items:
                yield item

    async def _reading(self, what: str, parts: AsyncIterator[Any], *, is_needed: bool = False) -> AsyncIterator[Any]:
        """The parts of a read until it fails. Raises `NotFound` only for an object that `is_needed`."""
        self.findings.reads += 1
        if self._gone:
            self.findings.unread.append(Unread(what, f"not tried: {self._gone}"))
            return
        self._wait(f"read {what}")
        while True:
            try:
                async with asyncio.timeout(SECONDS):
                    part = await anext(parts)
            except StopAsyncIteration:
                return
            except TimeoutError:
                await self._failed(what, TimeoutError(f"no answer within {SECONDS:.0f} s"))
                return
            except NotFound as error:
                if is_needed and not error.is_of_kind:
                    raise
                await self._failed(what, error)
                return
            except (KubeError, MsgspecError, ValueError) as error:
                await self._failed(what, error)
                return
            yield part

    async def _failed(self, what: str, error: Exception) -> None:
        self.findings.unread.append(Unread(what, str(error) or type(error).__name__))
        if isinstance(error, Unreachable | TimeoutError) and not await self._answers():
            self._gone = "the API server does not answer"

    async def _answers(self) -> bool:
        """True if the API server answers at all: otherwise each further read would wait in vain."""
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                await self._raw("/version")
        except (TimeoutError, Unreachable):
            return False
        except KubeError:
            return True
        return True

    async def _raw(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        response = await self._client.raw(Request("GET", path, query or {}))
        if response.status != 200:
            raise error_of(response.status, response.body)
        return response.body

    async def _version(self) -> Tree:
        tree = json_trees.decode(await self._raw("/version"))
        names = ("gitVersion", "platform", "buildDate")
        return {name: tree[name] for name in names if isinstance(tree.get(name), str)} if isinstance(tree, dict) else {}


async def _once(read: Callable[[], Awaitable[Any]]) -> AsyncIterator[Any]:
    yield await read()


def _cluster_api(served: Iterable[Resource]) -> Iterator[Resource]:
    """The kinds of Cluster API and its providers, each once: in the version that the server prefers, and upgrades."""
    upgrades = {kind.resource.kind for kind in (ControlPlaneUpgrade, MachineDeploymentUpgrade, NodeUpgrade)}
    seen: set[tuple[str, str]] = set()
    for resource in served:
        key = (resource.group, resource.plural)
        wanted = resource.kind in upgrades if resource.group == GROUP else resource.namespaced
        if wanted and key not in seen:
            seen.add(key)
            yield resource


def _references(part: Any) -> Iterator[tuple[str, str]]:
    """Kind and name of each reference in a spec."""
    if isinstance(part, dict):
        kind, name = part.get("kind"), part.get("name")
        if isinstance(kind, str) and isinstance(name, str):
            yield kind, name
        for inner in part.values():
            yield from _references(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from _references(inner)


def _is_of(secret: Object, labels: Mapping[str, str], cluster: Key) -> bool:
    if secret.namespace == SYSTEM_NAMESPACE:
        return labels.get(CLUSTER_NAME_LABEL) == cluster.name
    return secret.name.startswith(f"{cluster.name}-")
