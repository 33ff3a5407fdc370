"""Steps of the record of the management cluster.

No objects are made from it, and it can't be deleted while it manages clusters.
"""

from __future__ import annotations

from espalier.clusters import names
from espalier.clusters.context import Context
from espalier.clusters.rules import messages
from espalier.clusters.scope import Scope
from espalier.clusters.step import CLUSTER
from espalier.runtime.outcome import Continue, Outcome, Wait


async def guard(ctx: Context) -> Outcome:
    """Keep a finalizer on the record while it manages clusters, and on no other Cluster.

    Also when it is paused, as all records are: this changes nothing of the cluster. Copied manifests contain
    finalizers, so it is removed from any other Cluster.
    """
    scope, writer = ctx.scope, ctx.tools.writer
    is_wanted = scope.is_management and bool(scope.manages)
    if is_wanted and not scope.is_deleted:  # API servers accept no new finalizers on an object being deleted
        await writer.add_finalizer(CLUSTER, scope.object, names.MANAGEMENT_FINALIZER)
    elif not is_wanted:
        await writer.remove_finalizer(CLUSTER, scope.object, names.MANAGEMENT_FINALIZER)
    return Continue()


def held(scope: Scope) -> Outcome:
    """The outcome for a record that was deleted anyway: wait for its clusters."""
    if not scope.is_management or not scope.manages:
        return Continue()
    return Wait("ManagesClusters", messages.manages(messages.listed(scope.manages)))
