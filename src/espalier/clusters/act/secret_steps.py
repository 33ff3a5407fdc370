"""Steps for Secrets: keys, credentials, the kubeconfig, and those left over from a former cluster."""

from __future__ import annotations

import asyncio
import secrets

import msgspec

from espalier.api import core
from espalier.api.eksa.vocabulary.events import Event
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.meta import ObjectMeta
from espalier.clusters.act.context import ClusterContext
from espalier.clusters.act.secrets import authenticator_secrets, kubeconfig_copies
from espalier.clusters.act.step import Decision, Write, decisions_of, render_input_of
from espalier.clusters.design import names
from espalier.clusters.design.cluster_objects import object_names
from espalier.clusters.observe.references import GateKey
from espalier.clusters.observe.rules import messages
from espalier.clusters.observe.scope import Scope
from espalier.clusters.plan import drift
from espalier.clusters.report.validity import problem
from espalier.runtime.controllers.outcome import Continue, Outcome, Wait


async def make_gate_key(ctx: ClusterContext) -> Outcome:
    """Create the key for digests of credentials, if there are any.

    A lost key is recreated: objects that carry credentials are then compared once more, without a change.
    """
    if not ctx.scope.credentials or ctx.scope.gate_key:
        return Continue()
    key = secrets.token_bytes(32)
    metadata = ObjectMeta(name=names.GATE_KEY.name, namespace=names.GATE_KEY.namespace)
    body = core.Secret(metadata=metadata, data={names.GATE_KEY_FIELD: key})
    if await ctx.tools.writer.create(core.SECRET, body) is None:  # another reconcile or a user created it first
        message = (
            f"waiting for Secret {names.GATE_KEY} to appear in the cache; if it lacks {names.GATE_KEY_FIELD}, delete it"
        )
        return Wait(Reason.WAITING_FOR_GATE_KEY, message, after=1.0)
    ctx.scope = msgspec.structs.replace(ctx.scope, gate_key=GateKey(key))
    return Continue()


async def fill_authenticator_secrets(ctx: ClusterContext) -> Outcome:
    """Fill the Secrets of AWS IAM Authenticator.

    The keys of its webhook are generated once, because control plane machines use them. The kubeconfig for users of AWS
    follows when there is an API server.
    """
    render_input = render_input_of(ctx.scope)
    for body in drift.without_content(render_input, ctx.scope.capi_objects):
        await ctx.open_gate()
        await authenticator_secrets.fill(ctx, render_input, body.metadata.name)
        ctx.refresh()
    return Continue()


def carry_credentials(scope: Scope) -> Decision:
    """Write only the objects that carry credentials, if only credentials changed.

    Other rendered differences wait: a new password must not replace machines.
    """
    if not scope.takes_credentials or scope.is_restored_without_objects:
        return Continue()
    wait = problem(scope)
    if wait:
        return wait
    decisions = decisions_of(scope)
    carriers = decisions.render_input.provider.links.carriers
    wanted = [object_ for object_ in decisions.control_plane if object_.resource in carriers]
    return Write(decisions.changes(wanted), Event.CREDENTIALS_APPLIED)


async def copy_kubeconfig(ctx: ClusterContext) -> Outcome:
    """Copy the kubeconfig to the Cluster's namespace, or report in a condition why this failed."""
    await kubeconfig_copies.keep(ctx)
    return Continue()


async def read_left_over_secrets(ctx: ClusterContext) -> Outcome:
    """Before a cluster is created: read Secrets whose keys Cluster API would use for it.

    Includes Secrets without labels, which are not watched.
    """
    if ctx.scope.capi_objects.cluster_object is None:
        client = ctx.tools.writer.client
        wanted = object_names.secrets(ctx.scope.key.name)
        listed = await asyncio.gather(
            *(client.list(core.SECRET, key.namespace, fields=f"metadata.name={key.name}") for key in wanted)
        )
        conflicts = object_names.left_over(ctx.scope.key, (secret for part in listed for secret in part.items))
        ctx.scope = msgspec.structs.replace(ctx.scope, left_over=conflicts)
    return Continue()


def find_left_over_secrets(scope: Scope) -> Decision:
    """Reject the creation of a cluster while Secrets with another cluster's keys exist under its names."""
    if scope.capi_objects.cluster_object is not None or not scope.left_over:
        return Continue()
    return Wait(Reason.CLUSTER_NAME_TAKEN, messages.name_taken(scope.left_over), after=60.0)
