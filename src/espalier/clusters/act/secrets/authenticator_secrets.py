"""Fills the Secrets of AWS IAM Authenticator: the keys of its webhook, and the kubeconfig for users of AWS.

Keys are random, and the kubeconfig is known once there is an API server, so neither is rendered: the Secrets are
applied without content, and filled afterwards.
"""

from __future__ import annotations

import msgspec

from espalier.api.core import SECRET, Secret
from espalier.clusters.act.context import ClusterContext
from espalier.clusters.design.provider import RenderInput
from espalier.clusters.design.render.api_server import authenticator
from espalier.runtime.controllers.writer import Precondition


async def fill(ctx: ClusterContext, render_input: RenderInput, name: str) -> None:
    """Apply and fill the Secret of this name; do nothing for any other name."""
    if name == authenticator.secret_name(render_input.name):
        await make_keys(ctx, render_input)
    elif name == authenticator.kubeconfig_name(render_input.name):
        await write_user_kubeconfig(ctx, render_input)


async def make_keys(ctx: ClusterContext, render_input: RenderInput) -> None:
    """Apply the Secret, and generate keys unless it has some. Machines use only their own webhook, so their keys may
    differ.
    """
    from espalier.kube.connection.pki import Authority  # noqa: PLC0415  loads much, which most commands do not need

    body = authenticator.secret(render_input)
    applied = await ctx.tools.writer.apply(SECRET, msgspec.to_builtins(body), ctx.scope.cluster_ownership)
    if authenticator.has_keys(applied.tree):
        return
    now = ctx.tools.clock.now()
    pair = Authority.create(authenticator.NAME, now=now).issue_server(
        authenticator.NAME, names=["localhost", "127.0.0.1"], now=now, days=authenticator.VALID_DAYS
    )
    filled = msgspec.to_builtins(authenticator.with_keys(body, pair.certificate, pair.key))
    await ctx.tools.writer.merge(SECRET, applied, {"data": filled["data"]}, Precondition.UID)


async def write_user_kubeconfig(ctx: ClusterContext, render_input: RenderInput) -> None:
    """Apply the Secret with the kubeconfig for users of AWS, once Cluster API has made its own."""
    admin = ctx.scope.capi_objects.kubeconfig
    content = authenticator.user_kubeconfig(render_input, admin) if admin is not None else None
    if content is None:
        return
    body = authenticator.kubeconfig_secret(render_input)
    applied = await ctx.tools.writer.apply(SECRET, msgspec.to_builtins(body), ctx.scope.cluster_ownership)
    if not authenticator.gives_access(applied.tree, content):
        filled: Secret = authenticator.with_access(body, content)
        data = msgspec.to_builtins(filled)["data"]
        await ctx.tools.writer.merge(SECRET, applied, {"data": data}, Precondition.UID)
