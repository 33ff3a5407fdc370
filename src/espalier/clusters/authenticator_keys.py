"""Makes the keys of the webhook of AWS IAM Authenticator.

They are random, so they are not rendered: their Secret is applied without content, and filled afterwards.
"""

from __future__ import annotations

import msgspec

from espalier.api.core import SECRET
from espalier.clusters.context import Context
from espalier.clusters.render import authenticator
from espalier.clusters.render_input import Design
from espalier.kube.pki import Authority
from espalier.runtime.writer import Precondition


async def make(ctx: Context, design: Design) -> None:
    """Apply the Secret, and fill it unless it has keys. Each machine asks its own webhook, so it may have others."""
    body, writer = authenticator.secret(design), ctx.tools.writer
    applied = await writer.apply(SECRET, msgspec.to_builtins(body), ctx.scope.belonging)
    if authenticator.has_content(applied.tree):
        return
    now = ctx.tools.clock.now()
    pair = Authority.create(authenticator.NAME, now=now).issue_server(
        authenticator.NAME, names=["localhost", "127.0.0.1"], now=now, days=authenticator.VALID_DAYS
    )
    filled = msgspec.to_builtins(authenticator.filled(body, pair.certificate, pair.key))
    await writer.merge(SECRET, applied, {"data": filled["data"]}, Precondition.UID)
