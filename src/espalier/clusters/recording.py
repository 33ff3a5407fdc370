"""The record of the management cluster: nothing is made of it, but it stays while it manages clusters."""

from __future__ import annotations

from espalier.api.eksa import cluster as eksa
from espalier.clusters import names
from espalier.clusters.context import Context
from espalier.clusters.rules import messages
from espalier.clusters.scope import Scope
from espalier.runtime.outcome import Continue, Outcome, Wait

CLUSTER = eksa.Cluster.resource


async def guard(ctx: Context) -> Outcome:
    """A finalizer is on the record while it manages clusters, and on no other Cluster.

    Also on a paused one, as all records are: nothing of the cluster is touched by it. Manifests are copied with their
    finalizers, so it is taken off whatever Cluster has it.
    """
    scope, writer = ctx.scope, ctx.tools.writer
    is_wanted = scope.is_management and bool(scope.manages)
    if is_wanted and not scope.is_deleted:  # a server takes none for what is being deleted
        await writer.add_finalizer(CLUSTER, scope.object, names.MANAGEMENT_FINALIZER)
    elif not is_wanted:
        await writer.remove_finalizer(CLUSTER, scope.object, names.MANAGEMENT_FINALIZER)
    return Continue()


def held(scope: Scope) -> Outcome:
    """What a record waits for that was deleted all the same."""
    if not scope.is_management or not scope.manages:
        return Continue()
    return Wait("ManagesClusters", messages.manages(messages.listed(scope.manages)))
