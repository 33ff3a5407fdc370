"""A management cluster that is moved away while Git owns it.

Flux is suspended, for it would apply the cluster again, and the bootstrap gets the same GitOps configuration, for no
cluster may name another than that of its management cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from espalier.api import conditions
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.gitops import KINDS
from espalier.api.flux import KUSTOMIZATION, WITH_RETRY, Kustomization
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.api.text import paths
from espalier.api.text.listing import first
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import NotFound
from espalier.kube.objects import Object
from espalier.management import record as records
from espalier.management.steps import Progress, Refused

FIELD_MANAGER = "espalier-bootstrap"
_PAUSE = 0.5
_PATIENCE = 60.0
"""Seconds for which a reconcile that has begun is waited for."""


async def suspend(cluster: Client, progress: Progress, only: Key | None = None) -> list[Key]:
    """Have Flux apply nothing more: `spec.suspend` of all Kustomizations, that of Flux's own folder first; or of the
    `only` one. Idempotent.

    Returns them once none is in the middle of a reconcile, or after a minute.
    """
    try:
        kustomizations = (await cluster.list(KUSTOMIZATION)).items
    except NotFound:
        return []  # the cluster has no Flux
    suspended: list[Key] = []
    for kustomization in sorted(
        kustomizations, key=lambda kustomization: kustomization.name != kustomization.namespace
    ):
        if only is not None and kustomization.key != only:
            continue
        patch = {"spec": {"suspend": True}}
        try:
            await cluster.patch(
                KUSTOMIZATION, kustomization.name, kustomization.namespace, patch=patch, type=PatchType.MERGE
            )
        except NotFound:
            continue
        suspended.append(kustomization.key)
    end = asyncio.get_running_loop().time() + _PATIENCE
    while asyncio.get_running_loop().time() < end:
        busy = [
            str(kustomization.key)
            for kustomization in (await cluster.list(KUSTOMIZATION)).items
            if kustomization.key in suspended and _is_busy(kustomization.decode(Kustomization))
        ]
        if not busy:
            break
        progress.wait(f"Flux applies {', '.join(busy)}")
        await asyncio.sleep(_PAUSE)
    return suspended


def _is_busy(kustomization: Kustomization) -> bool:
    """True in the middle of a reconcile. After one that failed, the condition stays, with another reason."""
    reconciling = conditions.get(kustomization.status.conditions, "Reconciling")
    return reconciling is not None and reconciling.status == "True" and reconciling.reason != WITH_RETRY


async def resume(cluster: Client, kustomization: Key) -> None:
    """Let Flux apply a Kustomization again. Idempotent."""
    patch = {"spec": {"suspend": False}}
    await cluster.patch(KUSTOMIZATION, kustomization.name, kustomization.namespace, patch=patch, type=PatchType.MERGE)


async def share_configuration(cluster: Client, bootstrap: Client, key: Key) -> None:
    """Give the record of a bootstrap the GitOps configuration that a cluster names, if it names any. Idempotent.
    Raises `Refused` as `let_name`.
    """
    reference = (await cluster.get(Cluster.resource, key.name, key.namespace)).tree["spec"].get("gitOpsRef")
    kind = next(
        (config_kind for config_kind in KINDS if reference and config_kind.resource.kind == reference.get("kind")), None
    )
    if kind is None:
        return
    try:
        config = await cluster.get(kind.resource, reference["name"], key.namespace)
    except NotFound:
        return  # nobody can say what it was: the move is refused, and says so
    await let_name(bootstrap, reference, kind.resource, config.tree["spec"])


async def let_name(
    bootstrap: Client, reference: Tree, resource: Resource, spec: Tree, *, namespace: str | None = None
) -> None:
    """Let clusters of a bootstrap name a GitOps configuration, as those of a management cluster that has it.
    Idempotent. `reference` is as in `spec.gitOpsRef`; `spec` is that of the configuration; `namespace` is that of a
    manifest which has it, too.

    Raises `Refused`, before anything is written, if they can name another one only.
    """
    record = await records.managed(bootstrap)
    if record is None:
        return  # the cluster is refused there, with the reason
    key, name = record[0], reference["name"]
    present = (await bootstrap.get(Cluster.resource, key.name, key.namespace)).tree["spec"].get("gitOpsRef")
    if present not in (None, reference):
        raise Refused(
            f"Cluster {key} of the bootstrap: spec.gitOpsRef: found {present['kind']} {present['name']}; clusters of "
            f"this bootstrap can't have another one, as {reference['kind']} {name}: use another "
            "bootstrap, or take the field out of that Cluster once no other cluster there has it"
        )
    stored = await _stored(bootstrap, resource, Key(key.namespace, name))
    if stored is not None and (differing := _differing(stored, resource, spec)):
        advice = "use another bootstrap" if present else "give the one of the manifest another name"
        raise Refused(
            f"{resource.kind} {key.namespace}/{name} of the bootstrap has another {first(differing, 3)}: {advice}"
        )
    for place in dict.fromkeys((key.namespace, namespace or key.namespace)):
        # One that is there stays as it is: by who wrote it, `take_back_name` knows what to delete.
        if await _stored(bootstrap, resource, Key(place, name)) is None:
            metadata = {"name": name, "namespace": place}
            await bootstrap.apply(resource, {"metadata": metadata, "spec": spec}, field_manager=FIELD_MANAGER)
    named = {"metadata": {"name": key.name, "namespace": key.namespace}, "spec": {"gitOpsRef": reference}}
    await bootstrap.apply(Cluster.resource, named, field_manager=FIELD_MANAGER)


async def _stored(bootstrap: Client, resource: Resource, config: Key) -> Object | None:
    with suppress(NotFound):
        return await bootstrap.get(resource, config.name, config.namespace)
    return None


def _differing(stored: Object, resource: Resource, spec: Tree) -> list[str]:
    """The fields in which a configuration differs from this spec."""
    kind = next(kind for kind in KINDS if kind.resource == resource)
    read = [msgspec.to_builtins(msgspec.convert({"spec": tree}, kind)) for tree in (stored.tree["spec"], spec)]
    return [paths.render(path) for path, _, _ in paths.differences(*read)]


async def take_back_name(bootstrap: Client, namespace: str | None = None) -> None:
    """Undo `let_name` in a bootstrap that stays, unless its record had the configuration before, or a cluster of it has
    it by now. Idempotent.
    """
    record = await records.managed(bootstrap)
    if record is None:
        return
    key = record[0]
    clusters = (await bootstrap.list(Cluster.resource)).items
    own = next((cluster for cluster in clusters if cluster.key == key), None)
    others = [_reference(cluster) for cluster in clusters if cluster.key != key]
    if own is not None and _is_owned(own) and _reference(own) not in others:
        own = await bootstrap.apply(
            Cluster.resource, {"metadata": {"name": key.name, "namespace": key.namespace}}, field_manager=FIELD_MANAGER
        )
    named = [*others, *([_reference(own)] if own is not None else [])]
    for kind in KINDS:
        for place in dict.fromkeys((key.namespace, namespace or key.namespace)):
            await _delete_unnamed(bootstrap, kind.resource, place, named)


async def _delete_unnamed(bootstrap: Client, resource: Resource, namespace: str, named: Sequence[Tree]) -> None:
    """Delete the configurations that `let_name` made and that no Cluster names."""
    with suppress(NotFound):  # the kind is not served, or somebody else deletes it
        for config in (await bootstrap.list(resource, namespace)).items:
            is_made = _is_owned(config) and _managers(config) <= {FIELD_MANAGER, records.FIELD_MANAGER}
            if is_made and {"kind": resource.kind, "name": config.name} not in named:
                await bootstrap.delete(resource, config.name, config.namespace, uid=config.metadata.uid)


def _reference(cluster: Object) -> Tree:
    return (cluster.tree.get("spec") or {}).get("gitOpsRef") or {}


def _is_owned(object_: Object) -> bool:
    return FIELD_MANAGER in _managers(object_)


def _managers(object_: Object) -> set[str]:
    return {str(entry.get("manager")) for entry in object_.tree["metadata"].get("managedFields") or []}
