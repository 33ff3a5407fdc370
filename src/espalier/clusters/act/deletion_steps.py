"""Steps of a Cluster that is being deleted, and those that protect the record of the management cluster.

No objects are made from the record, and it can't be deleted while it manages clusters.
"""

from __future__ import annotations

from espalier.api import conditions as condition_list
from espalier.api.capi import cluster as capi
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.eksa.vocabulary.events import Event
from espalier.api.eksa.vocabulary.group import CLUSTER_FINALIZER
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.clusterapi import contract
from espalier.clusters.act.context import ClusterContext
from espalier.clusters.act.step import CLUSTER
from espalier.clusters.design.provider import extra_kinds
from espalier.clusters.observe.rules import messages
from espalier.clusters.observe.scope import Scope
from espalier.clusters.plan import plan
from espalier.clusters.plan.plan import Removal
from espalier.clusters.report import readiness
from espalier.runtime.controllers.outcome import Continue, Outcome, Wait


async def delete_cluster(ctx: ClusterContext) -> Outcome:
    """Delete the Cluster API Cluster, which deletes workers, control plane and infrastructure, in order."""
    cluster = ctx.scope.capi_objects.cluster_object
    if cluster is None:
        return Continue()
    if cluster.metadata.deletion_timestamp is None:
        await ctx.write([Removal(capi.Cluster.resource, cluster)], Event.DELETION_STARTED)
    paused = readiness.paused_objects(ctx.scope)
    reason = Reason.CLUSTER_API_PAUSED if paused else Reason.DELETING
    return Wait(reason, "; ".join(filter(None, [_what_is_left(ctx), paused, _held_up(ctx)])))


async def delete_leftovers(ctx: ClusterContext) -> Outcome:
    """Delete what Cluster API does not delete with its Cluster: objects without one, MachineHealthChecks, templates.

    The garbage collector deletes Secrets, and this step waits for it: a new cluster of the same name would use them,
    and lose its CA when they go.
    """
    capi_objects = ctx.scope.capi_objects
    await ctx.write(plan.leftovers(capi_objects, extra_kinds(ctx.scope.providers)), Event.LEFTOVERS_REMOVED)
    left = [f"{resource.kind} {name}" for resource, objects in capi_objects.objects.items() for name in objects]
    left += [f"Secret {secret.name}" for secret in capi_objects.secrets if contract.is_owned(secret)]
    if not left:
        return Continue()
    return Wait(
        Reason.DELETING, "; ".join(filter(None, [f"waiting for {', '.join(left)} to be deleted", _abandoned(ctx)]))
    )


async def remove_finalizer(ctx: ClusterContext) -> Outcome:
    """Remove the finalizer."""
    ctx.tools.remotes.drop(ctx.scope.cluster_identity)
    await ctx.tools.writer.remove_finalizer(CLUSTER, ctx.scope.object, CLUSTER_FINALIZER)
    return Continue()


def _what_is_left(ctx: ClusterContext) -> str:
    capi_objects = ctx.scope.capi_objects
    workers = sum(deployment.status.replicas or 0 for deployment in capi_objects.typed_deployments.values())
    if workers:
        return f"waiting for {workers} worker {_machines(workers)} to be deleted"
    control_plane = capi_objects.control_plane
    machines = (control_plane.status.replicas or 0) if control_plane else 0
    if machines:
        return f"waiting for {machines} control plane {_machines(machines)} to be deleted"
    return "waiting for the infrastructure to be deleted"


def _held_up(ctx: ClusterContext) -> str:
    """Cluster API's message about a slow deletion, such as a node that can't be drained."""
    cluster = ctx.scope.capi_objects.cluster
    condition = condition_list.get(cluster.status.conditions, "Deleting") if cluster else None
    return (
        f"Cluster API reports: {condition.message}"
        if condition is not None and condition.status == "True" and condition.message
        else ""
    )


def _abandoned(ctx: ClusterContext) -> str:
    """Objects that Cluster API may never finalize, because its controllers ignore objects whose Cluster is gone."""
    held = [
        f"{', '.join(object_.metadata.finalizers)} of {resource.kind} {object_.key}"
        for resource, objects in ctx.scope.capi_objects.objects.items()
        for object_ in objects.values()
        if object_.metadata.deletion_timestamp is not None and object_.metadata.finalizers
    ]
    if ctx.scope.capi_objects.cluster_object is not None or not held:
        return ""
    return f"their Cluster API Cluster is gone: if they remain, remove finalizers {'; '.join(held)}"


def _machines(number: int) -> str:
    return "machine" if number == 1 else "machines"


async def guard(ctx: ClusterContext) -> Outcome:
    """Keep a finalizer on the record while it manages clusters, and on no other Cluster.

    Also when it is paused, as all records are: this changes nothing of the cluster. Copied manifests contain
    finalizers, so it is removed from any other Cluster.
    """
    scope, writer = ctx.scope, ctx.tools.writer
    if scope.manages and not scope.is_deleted:  # API servers accept no new finalizers on an object being deleted
        await writer.add_finalizer(CLUSTER, scope.object, metadata_keys.MANAGEMENT_FINALIZER)
    elif not scope.manages:
        await writer.remove_finalizer(CLUSTER, scope.object, metadata_keys.MANAGEMENT_FINALIZER)
    return Continue()


def wait_for_managed_clusters(scope: Scope) -> Outcome:
    """The outcome for a record that was deleted anyway: wait for its clusters."""
    if not scope.manages:
        return Continue()
    return Wait(Reason.MANAGES_CLUSTERS, messages.manages(messages.listed(scope.manages)))
