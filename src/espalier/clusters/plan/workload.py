"""Remote tasks in workload clusters: compare, install and correct objects. No reconcile blocks on them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextlib import suppress
from functools import partial

from espalier.clusters.design import cni, names
from espalier.clusters.design.drift import ownership
from espalier.clusters.design.rendered import Manifest
from espalier.clusters.plan import drift
from espalier.clusters.plan.drift import Drift
from espalier.clusters.plan.workload_objects import WorkloadObject
from espalier.kube.client import Client
from espalier.kube.errors import KubeError, NotFound, Unreachable
from espalier.kube.objects import Object
from espalier.runtime.workload_clusters.remote_tasks import RemoteTask


class NotCorrected(KubeError):
    """Some of the drift could not be corrected."""

    def __init__(self, refusals: dict[str, Exception]) -> None:
        super().__init__("; ".join(f"{what}: {why}" for what, why in refusals.items()))
        self.refusals = refusals
        """The errors, by object."""


def compare(
    manifests: Sequence[Manifest], asked: Hashable, kubeconfig: bytes, *, name: str = "compare the CNI in"
) -> RemoteTask[list[Drift]]:
    """Compare objects of a workload cluster with the installed ones. The cluster is not watched; it is read on demand.

    `asked` are the drift policy and the desired state: a change of either repeats the comparison at once. Each `name`
    identifies one set of objects.
    """

    async def run(client: Client) -> list[Drift]:
        live = [await _read(client, manifest) for manifest in manifests]
        return drift.of_manifests(manifests, live)

    return RemoteTask(name, (cni.content_hash(manifests), asked), kubeconfig, run)


def install(
    manifests: Sequence[Manifest], kubeconfig: bytes, superfluous: Sequence[WorkloadObject] = ()
) -> RemoteTask[bool]:
    """Apply all objects, in order, up to the first that is rejected; then delete superfluous ones."""

    async def done(_client: Client) -> bool:
        return True

    parts: list[Callable[[Client], Awaitable[object]]] = [partial(_apply, manifest=manifest) for manifest in manifests]
    parts += [partial(_delete, placed=placed) for placed in reversed(superfluous)]
    subject = (cni.content_hash(manifests), *superfluous) if superfluous else cni.content_hash(manifests)
    return RemoteTask("install in", subject, kubeconfig, done, writes=True, parts=parts)


def correct(manifests: Sequence[tuple[str, Manifest]], kubeconfig: bytes) -> RemoteTask[bool]:
    """Correct each object, even if others fail. Raises `NotCorrected` with the errors.

    `manifests` are given with their names for messages.
    """

    async def run(client: Client) -> bool:
        refusals: dict[str, Exception] = {}
        for what, manifest in manifests:
            try:
                await _apply(client, manifest)
            except Unreachable:
                raise
            except KubeError as error:
                refusals[what] = error
        if refusals:
            raise NotCorrected(refusals)
        return True

    return RemoteTask(
        "correct", cni.content_hash([manifest for _, manifest in manifests]), kubeconfig, run, writes=True
    )


async def _apply(client: Client, manifest: Manifest) -> None:
    await client.apply(manifest.resource, manifest.body, field_manager=names.FIELD_MANAGER)


async def _delete(client: Client, placed: WorkloadObject) -> None:
    """Delete an object only if it was applied here: an annotation lists it, and users can edit annotations."""
    where = placed.resource, placed.key.name, placed.key.namespace or None
    with suppress(NotFound):
        object_ = await client.get(*where)
        if ownership.owned_fields(object_) is not None:
            await client.delete(*where, uid=object_.metadata.uid)


async def _read(client: Client, manifest: Manifest) -> Object | None:
    metadata = manifest.body["metadata"]
    try:
        return await client.get(manifest.resource, metadata["name"], metadata.get("namespace"))
    except NotFound:
        return None
