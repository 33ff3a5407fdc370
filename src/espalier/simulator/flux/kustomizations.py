"""Kustomizations: a folder of a fetched repository is applied, and what has left it is deleted.

As Flux does it: all objects are tried first, and one that is refused keeps all of them from being applied; fields that
somebody else changed are set back at each interval; a Kustomization that is deleted takes its objects along.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from espalier.api import conditions
from espalier.api.core import CUSTOM_RESOURCE_DEFINITION, NAMESPACE
from espalier.api.flux import (
    FINALIZER,
    MIRROR,
    NAME_LABEL,
    NAMESPACE_LABEL,
    PROGRESSING,
    WITH_RETRY,
    Entry,
    Kustomization,
)
from espalier.api.meta import Condition, Tree
from espalier.api.resource import Key, Resource
from espalier.kube.client import Client
from espalier.kube.discovery import Discovery, UnknownResource
from espalier.kube.errors import KubeError, NotFound
from espalier.kube.objects import Object
from espalier.runtime.caches.cache import Cache
from espalier.runtime.clock import Clock
from espalier.runtime.controllers.outcome import Done, Outcome, Wait
from espalier.runtime.controllers.writer import Writer
from espalier.simulator.flux.building import BuildFailed, build
from espalier.simulator.flux.sources import BY, Refused, Sources, interval_of, judged, refuse_unknown

FIELD_MANAGER = "kustomize-controller"
_KNOWN = {
    "Kustomization": frozenset(
        {"deletionPolicy", "force", "interval", "path", "prune", "retryInterval", "sourceRef", "suspend", "timeout"}
    ),
    "sourceRef": frozenset({"kind", "name", "namespace"}),
}
_POLICIES = (MIRROR, "Delete", "Orphan")
_FIRST = (NAMESPACE.kind, CUSTOM_RESOURCE_DEFINITION.kind)


class _Applied(NamedTuple):
    resource: Resource
    tree: Tree

    @property
    def entry(self) -> Entry:
        metadata = self.tree["metadata"]
        namespace = metadata.get("namespace", "") if self.resource.namespaced else ""
        name, group, kind = metadata["name"].replace(":", "__"), self.resource.group, self.resource.kind
        return Entry(id=f"{namespace}_{name}_{group}_{kind}", v=self.resource.version)


class _Failed(Exception):
    """A folder that was not applied, or not completely; `reason` is Flux's."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Kustomizations:
    """Applies the folders."""

    def __init__(self, cache: Cache, client: Client, writer: Writer, clock: Clock, sources: Sources) -> None:
        self._cache = cache
        self._client = client
        self._writer = writer
        self._clock = clock
        self._sources = sources
        self._discovery = Discovery(client)

    async def reconcile(self, key: Key) -> Outcome:
        """Apply a folder, delete what has left it, and report."""
        object_ = self._cache.get(key)
        if object_ is None:
            return Done()
        try:
            refuse_unknown(object_, _KNOWN)
            kustomization = object_.decode(Kustomization)
            interval = interval_of(kustomization.spec.interval)
            retry = interval_of(kustomization.spec.retry_interval) if kustomization.spec.retry_interval else interval
            if kustomization.spec.source_ref.kind != "GitRepository":
                raise Refused(f"spec.sourceRef.kind: {kustomization.spec.source_ref.kind}; allowed: GitRepository")
            if kustomization.spec.deletion_policy not in _POLICIES:
                allowed = ", ".join(_POLICIES)
                raise Refused(
                    f"spec.deletionPolicy: {kustomization.spec.deletion_policy}; its stand-in here allows: {allowed}"
                )
            if kustomization.spec.force:
                raise Refused("spec.force: true; it makes Flux delete clusters, so its stand-in here does not know it")
        except (Refused, msgspec.ValidationError) as error:
            if object_.metadata.deletion_timestamp is not None:
                await self._writer.remove_finalizer(Kustomization.resource, object_, FINALIZER)
            else:
                await self._report(object_, "False", "NotSupported", str(error))
            return Done()
        if object_.metadata.deletion_timestamp is not None:
            return await self._leave(object_, kustomization)
        if kustomization.spec.suspend:
            return Done()
        object_ = await self._writer.add_finalizer(Kustomization.resource, object_, FINALIZER)
        source = kustomization.spec.source_ref
        fetched = self._sources.fetched(Key(source.namespace or key.namespace, source.name))
        if fetched is None:
            message = f"the GitRepository {source.name} has not been fetched yet"
            await self._report(object_, "False", "ArtifactFailed", message)
            return Wait("ArtifactFailed", message)
        revision, content = fetched
        object_ = await self._report_progress(object_, revision)
        try:
            object_ = await self._apply(object_, kustomization, revision, build(content.files, kustomization.spec.path))
        except BuildFailed as error:
            await self._report(object_, "False", "BuildFailed", f"{error}, {BY}", lastAttemptedRevision=revision)
            return Done(after=retry)
        except _Failed as error:
            await self._report(object_, "False", error.reason, f"{error}, {BY}", lastAttemptedRevision=revision)
            return Done(after=retry)
        return Done(after=interval)

    async def _apply(self, object_: Object, kustomization: Kustomization, revision: str, trees: list[Tree]) -> Object:
        labels = {NAME_LABEL: object_.name, NAMESPACE_LABEL: object_.namespace}
        applied = [await self._placed(tree, labels) for tree in trees]
        applied.sort(key=lambda item: (item.resource.kind not in _FIRST, _order(item.resource.kind)))
        for is_tried in (True, False):
            for resource, tree in applied:
                try:
                    await self._client.apply(resource, tree, field_manager=FIELD_MANAGER, dry_run=is_tried)
                except (KubeError, msgspec.ValidationError) as error:
                    name = f"{resource.kind}/{tree['metadata'].get('namespace', '')}/{tree['metadata']['name']}"
                    raise _Failed("ReconciliationFailed", f"{name} was not applied: {error}") from None
        entries = [item.entry for item in applied]
        left = [entry for entry in _entries(kustomization) if entry.id not in {entry.id for entry in entries}]
        if kustomization.spec.prune:
            await self._delete(object_, left)
        return await self._report(
            object_,
            "True",
            "ReconciliationSucceeded",
            f"Applied revision: {revision}, {BY}",
            lastAppliedRevision=revision,
            lastAttemptedRevision=revision,
            inventory={"entries": msgspec.to_builtins(entries)},
        )

    async def _placed(self, tree: Tree, labels: dict[str, str]) -> _Applied:
        group, _, version = tree["apiVersion"].rpartition("/")
        try:
            resource = await self._discovery.resolve(f"{tree['kind']}.{version}.{group}")
        except UnknownResource as error:
            raise _Failed("ReconciliationFailed", f"{tree['kind']} {tree['metadata']['name']}: {error}") from None
        metadata = tree["metadata"]
        if resource.namespaced and not metadata.get("namespace"):
            message = f"{resource.kind}/{metadata['name']}: namespace not specified; Flux has no default for it"
            raise _Failed("ReconciliationFailed", message)
        return _Applied(resource, tree | {"metadata": metadata | {"labels": (metadata.get("labels") or {}) | labels}})

    async def _delete(self, object_: Object, entries: list[Entry]) -> None:
        """Delete what is no longer in Git, unless somebody took our label off it."""
        for entry in sorted(entries, key=lambda item: item.id):
            namespace, _, rest = entry.id.partition("_")
            name, group, kind = rest.rsplit("_", 2)
            name = name.replace("__", ":")
            try:
                resource = await self._discovery.resolve(f"{kind}.{entry.v}.{group}")
                live = await self._client.get(resource, name, namespace or None)
                if live.metadata.labels.get(NAME_LABEL) == object_.name:
                    await self._client.delete(resource, name, namespace or None, uid=live.metadata.uid)
            except (NotFound, UnknownResource):
                continue
            except KubeError as error:
                raise _Failed("PruneFailed", f"{kind}/{namespace}/{name} was not deleted: {error}") from None

    async def _leave(self, object_: Object, kustomization: Kustomization) -> Outcome:
        try:
            policy = kustomization.spec.deletion_policy
            if (
                policy == "Delete" or (policy == MIRROR and kustomization.spec.prune)
            ) and not kustomization.spec.suspend:
                await self._delete(object_, _entries(kustomization))
        except _Failed as error:
            await self._report(object_, "False", error.reason, f"{error}, {BY}")
            return Wait(error.reason, str(error), after=interval_of(kustomization.spec.interval))
        await self._writer.remove_finalizer(Kustomization.resource, object_, FINALIZER)
        return Done()

    async def _report_progress(self, object_: Object, revision: str) -> Object:
        status = dict(object_.tree.get("status") or {})
        message = f"Fetching manifests for revision {revision}, {BY}"
        new = [
            conditions.condition("Ready", "Unknown", PROGRESSING, "Reconciliation in progress"),
            conditions.condition("Reconciling", "True", PROGRESSING, message),
        ]
        return await self._writer.status(
            Kustomization.resource, object_, status | {"conditions": self._conditions(object_, *new)}
        )

    async def _report(
        self, object_: Object, status: Literal["True", "False"], reason: str, message: str, **fields: object
    ) -> Object:
        before = {
            name: value
            for name, value in (object_.tree.get("status") or {}).items()
            if name in ("lastAppliedRevision", "lastAttemptedRevision", "inventory", "observedGeneration")
        }
        new_status = before | judged(object_, status, reason, message, self._clock.now()) | fields
        reconciling = conditions.get(_conditions(object_), "Reconciling")
        if status == "False":  # the generation is observed once it is applied
            new_status["observedGeneration"] = before.get("observedGeneration", -1)
            if reconciling is not None:
                ready = conditions.condition("Ready", status, reason, message)
                retried = conditions.condition("Reconciling", "True", WITH_RETRY, reconciling.message)
                new_status["conditions"] = self._conditions(object_, ready, retried)
        return await self._writer.status(Kustomization.resource, object_, new_status)

    def _conditions(self, object_: Object, *new: Condition) -> object:
        reported = _conditions(object_)
        for condition in new:
            observed = msgspec.structs.replace(condition, observed_generation=object_.metadata.generation)
            reported = conditions.set(reported, observed, self._clock.now())
        return msgspec.to_builtins(reported)


def _conditions(object_: Object) -> list[Condition]:
    return msgspec.convert((object_.tree.get("status") or {}).get("conditions") or [], list[Condition])


def _entries(kustomization: Kustomization) -> list[Entry]:
    return kustomization.status.inventory.entries if kustomization.status.inventory is not None else []


def _order(kind: str) -> int:
    return _FIRST.index(kind) if kind in _FIRST else 0
