"""What is done in workload clusters, by remote tasks: the CNI is compared and installed. No reconcile waits there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextlib import suppress
from functools import partial

from espalier.clusters import cni, drift, names, ownership
from espalier.clusters.drift import Drift
from espalier.clusters.rendered import Manifest
from espalier.clusters.workload_objects import Placed
from espalier.kube.client import Client
from espalier.kube.errors import KubeError, NotFound, Unreachable
from espalier.kube.objects import Object
from espalier.runtime.remote_tasks import RemoteTask


class NotCorrected(KubeError):
    """Some of the drift could not be brought back."""

    def __init__(self, refusals: dict[str, Exception]) -> None:
        super().__init__("; ".join(f"{what}: {why}" for what, why in refusals.items()))
        self.refusals = refusals
        """What, and why not."""


def look(
    manifests: Sequence[Manifest], asked: Hashable, kubeconfig: bytes, *, name: str = "look at"
) -> RemoteTask[list[Drift]]:
    """See where a workload cluster differs from what was installed. No watch stands there; it is asked for.

    `asked` is what is to be done about drift, and what the cluster is to be: who changes either wants to know at once.
    What is looked at under one `name` is one thing.
    """

    async def run(client: Client) -> list[Drift]:
        live = [await _read(client, manifest) for manifest in manifests]
        return drift.of_manifests(manifests, live)

    return RemoteTask(name, (cni.content_hash(manifests), asked), kubeconfig, run)


def install(manifests: Sequence[Manifest], kubeconfig: bytes, superfluous: Sequence[Placed] = ()) -> RemoteTask[bool]:
    """Apply all objects, in their order, up to the first that is refused; then delete those that are superfluous."""

    async def done(_client: Client) -> bool:
        return True

    parts: list[Callable[[Client], Awaitable[object]]] = [partial(_apply, manifest=one) for one in manifests]
    parts += [partial(_delete, placed=one) for one in reversed(superfluous)]
    subject = (cni.content_hash(manifests), *superfluous) if superfluous else cni.content_hash(manifests)
    return RemoteTask("install in", subject, kubeconfig, done, writes=True, parts=parts)


def correct(manifests: Sequence[tuple[str, Manifest]], kubeconfig: bytes) -> RemoteTask[bool]:
    """Bring back each object, whatever becomes of the others. Fails with `NotCorrected`, which says of which and why.

    `manifests` are given with what they are called.
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


async def _delete(client: Client, placed: Placed) -> None:
    """Delete exactly the object that was applied here: an annotation names it, and annotations can be edited."""
    where = placed.resource, placed.key.name, placed.key.namespace or None
    with suppress(NotFound):
        found = await client.get(*where)
        if ownership.owned_fields(found) is not None:
            await client.delete(*where, uid=found.metadata.uid)


async def _read(client: Client, manifest: Manifest) -> Object | None:
    metadata = manifest.body["metadata"]
    try:
        return await client.get(manifest.resource, metadata["name"], metadata.get("namespace"))
    except NotFound:
        return None
