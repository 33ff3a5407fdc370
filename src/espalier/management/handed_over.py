"""A management cluster that is moved away while Git owns it.

Flux is suspended, for it would apply the cluster again, and the bootstrap gets the same GitOps configuration, for no
cluster may name another than that of its management cluster.
"""

from __future__ import annotations

import asyncio
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


async def let_name(bootstrap: Client, reference: Tree, resource: Resource, spec: Tree) -> None:
    """Let clusters of a bootstrap name a GitOps configuration, as those of a management cluster that has it.
    Idempotent. `reference` is as in `spec.gitOpsRef`; `spec` is that of the configuration.

    Raises `Refused`, before anything is written, if they can name another one only.
    """
    record = await records.managed(bootstrap)
    if record is None:
        return  # the cluster is refused there, with the reason
    key = record[0]
    present = (await bootstrap.get(Cluster.resource, key.name, key.namespace)).tree["spec"].get("gitOpsRef")
    if present not in (None, reference):
        raise Refused(
            f"Cluster {key} of the bootstrap: spec.gitOpsRef: found {present['kind']} {present['name']}; clusters of "
            f"this bootstrap can't have another one, as {reference['kind']} {reference['name']}: use another "
            "bootstrap, or take the field out of that Cluster once no other cluster there has it"
        )
    if differing := await _differing(bootstrap, Key(key.namespace, reference["name"]), resource, spec):
        advice = "use another bootstrap" if present else "give the one of the manifest another name"
        raise Refused(
            f"{resource.kind} {key.namespace}/{reference['name']} of the bootstrap has another "
            f"{first(differing, 3)}: {advice}"
        )
    metadata = {"name": reference["name"], "namespace": key.namespace}
    await bootstrap.apply(resource, {"metadata": metadata, "spec": spec}, field_manager=FIELD_MANAGER)
    named = {"metadata": {"name": key.name, "namespace": key.namespace}, "spec": {"gitOpsRef": reference}}
    await bootstrap.apply(Cluster.resource, named, field_manager=FIELD_MANAGER)


async def _differing(bootstrap: Client, config: Key, resource: Resource, spec: Tree) -> list[str]:
    """The fields in which a configuration of a bootstrap differs from this spec; none without it."""
    kind = next(kind for kind in KINDS if kind.resource == resource)
    try:
        stored = await bootstrap.get(resource, config.name, config.namespace)
    except NotFound:
        return []
    read = [msgspec.to_builtins(msgspec.convert({"spec": tree}, kind)) for tree in (stored.tree["spec"], spec)]
    return [paths.render(path) for path, _, _ in paths.differences(*read)]


async def take_back_name(bootstrap: Client) -> None:
    """Undo `let_name` in a bootstrap that stays, unless its record had the configuration before, or a cluster of it has
    it by now. Idempotent.
    """
    record = await records.managed(bootstrap)
    if record is None:
        return
    key = record[0]
    clusters = (await bootstrap.list(Cluster.resource)).items
    own = next((cluster for cluster in clusters if cluster.key == key), None)
    reference = ((own.tree.get("spec") or {}).get("gitOpsRef") or {}) if own is not None else {}
    kind = next((config_kind for config_kind in KINDS if config_kind.resource.kind == reference.get("kind")), None)
    others = [(cluster.tree.get("spec") or {}).get("gitOpsRef") for cluster in clusters if cluster.key != key]
    if own is None or kind is None or reference in others or not _is_owned(own):
        return
    await bootstrap.apply(
        Cluster.resource, {"metadata": {"name": key.name, "namespace": key.namespace}}, field_manager=FIELD_MANAGER
    )
    with suppress(NotFound):
        config = await bootstrap.get(kind.resource, reference["name"], key.namespace)
        if _is_owned(config) and len(config.tree["metadata"]["managedFields"]) == 1:
            await bootstrap.delete(kind.resource, config.name, config.namespace, uid=config.metadata.uid)


def _is_owned(object_: Object) -> bool:
    managers = [entry.get("manager") for entry in object_.tree["metadata"].get("managedFields") or []]
    return FIELD_MANAGER in managers
