"""Copies of kubeconfigs, beside their Clusters: for users without rights on the system's namespace.

Nothing is read in a user's namespace, and nothing that is not ours is written there. A Secret's type never changes, and
API servers hold to it: the copies have one of their own, so that a write of the whole Secret is refused by the server
where it is somebody else's. (A patch is no way: its answer holds the object, so whoever may patch may read.)
"""

from __future__ import annotations

import hashlib
from typing import Literal

from espalier.api import core
from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.group import CLUSTER_NAME_LABEL, GROUP
from espalier.api.meta import Condition, ObjectMeta
from espalier.api.resource import Key
from espalier.clusterapi import kubeconfig
from espalier.clusters import names
from espalier.clusters.context import Context
from espalier.kube.errors import Conflict, Forbidden, Invalid, NotFound
from espalier.kube.objects import Object
from espalier.runtime import owners

TYPE = f"{GROUP}/kubeconfig"
"""Of the Secrets that are copies."""

LOOK_EVERY = 3600.0
"""Seconds after which a copy is made again that somebody deleted: nothing of that namespace's Secrets is watched."""

TRY_EVERY = 60.0

NOT_ALLOWED = "KubeconfigCopyNotAllowed"
NOT_OURS = "KubeconfigNotOfThisCluster"


def is_copy(secret: Object) -> bool:
    """Whether a Secret is a copy, and not a user's own of that name: whatever its labels are, its type says so."""
    return secret.decode(core.Secret).type == TYPE


async def keep(ctx: Context) -> None:
    """Have the copy there, as the kubeconfig is now; what is in its way is said, and stops nothing else.

    Only of a kubeconfig which Cluster API made for this cluster. Also in settled clusters: the certificate in it is
    renewed. The Cluster carries a digest of what was copied.
    """
    scope, copies = ctx.scope, ctx.tools.copies
    if copies is None or scope.key.namespace == scope.cluster_identity.capi.namespace:
        ctx.copied = None
        return
    content = scope.capi_objects.kubeconfig
    if content is None:
        ctx.copied = _not_ours(ctx)
        return
    digest = hashlib.sha256(scope.object.metadata.uid.encode() + content).hexdigest()[:16]
    is_copied = scope.cluster.metadata.annotations.get(names.KUBECONFIG_ANNOTATION) == digest
    if copies.is_good(scope.key, digest) and (is_copied or ctx.copied is not None):
        return  # who takes the note of a copy away has it made again
    if is_copied:
        # A manager that has just started asks nothing, unless something was in the way.
        if ctx.copied is not None or copies.is_over(scope.key, digest):
            ctx.copied = await _write(ctx, content, replaces=False)  # what is there was copied, or is the user's own
        copies.keep(scope.key, digest, LOOK_EVERY if ctx.copied is None else TRY_EVERY)
        return
    ctx.copied = await _write(ctx, content)
    copies.keep(scope.key, digest, LOOK_EVERY if ctx.copied is None else TRY_EVERY)
    if ctx.copied is None:
        await ctx.annotate(eksa.Cluster.resource, scope.object, {names.KUBECONFIG_ANNOTATION: digest})
        ctx.event("Normal", "KubeconfigCopied", f"the kubeconfig is in Secret {_key(ctx).name}")


async def _write(ctx: Context, content: bytes, *, replaces: bool = True) -> Condition | None:
    """Create the copy, or replace it if it is ours. What is in the way, if anything is."""
    writer, key = ctx.tools.writer, _key(ctx)
    try:
        if await writer.create(core.SECRET, _copy(ctx, content)) is not None or not replaces:
            return None
    except Forbidden as refusal:
        return _not_allowed(ctx, refusal)
    try:
        await writer.replace(core.SECRET, _copy(ctx, content))
    except (Invalid, Conflict, NotFound):
        return _trouble(
            names.KUBECONFIG_SECRET_TAKEN,
            f"Secret {key} is there and is not the copy that is made of the kubeconfig, so it is left alone; "
            f"delete or rename it, and the kubeconfig is copied there within a minute. {_meanwhile(ctx)}",
        )
    except Forbidden as refusal:
        return _not_allowed(ctx, refusal)
    return None


def _copy(ctx: Context, content: bytes) -> core.Secret:
    key = _key(ctx)
    owner = owners.owner_reference(ctx.scope.object, controller=False, block_owner_deletion=False)
    metadata = ObjectMeta(
        name=key.name,
        namespace=key.namespace,
        labels={CLUSTER_NAME_LABEL: ctx.scope.key.name},
        owner_references=[owner],
    )
    return core.Secret(metadata=metadata, type=TYPE, data={kubeconfig.KEY: content})


def _key(ctx: Context) -> Key:
    return kubeconfig.secret_key(ctx.scope.key)


def _not_ours(ctx: Context) -> Condition | None:
    """A kubeconfig of the name, while there is a cluster, which is none of its making."""
    found = ctx.scope.capi_objects.kubeconfig_secret
    if found is None or ctx.scope.capi_objects.cluster_object is None:
        return None
    return _trouble(
        NOT_OURS,
        f"Secret {found.key} is not of this cluster (neither its Cluster nor its KubeadmControlPlane of Cluster API "
        "owns it), so it is neither used nor copied; delete it, and Cluster API makes the right one",
    )


def _not_allowed(ctx: Context, refusal: Forbidden) -> Condition:
    namespace = ctx.scope.key.namespace
    return _trouble(
        NOT_ALLOWED,
        f"the kubeconfig is not copied to Secret {_key(ctx)}, for the API server refuses it ({refusal}); "
        f"whoever may grant that applies `espalier manifests --kubeconfig-copies --namespace {namespace}`. "
        f"{_meanwhile(ctx)}",
    )


def _meanwhile(ctx: Context) -> str:
    source = kubeconfig.secret_key(ctx.scope.cluster_identity.capi)
    command = f"espalier kubeconfig {ctx.scope.key.name} --namespace {ctx.scope.key.namespace}"
    return f"Until then `{command}` prints it for those who may read Secret {source}"


def _trouble(reason: str, message: str) -> Condition:
    status: Literal["False"] = "False"
    return Condition(type=names.KUBECONFIG_COPIED, status=status, reason=reason, message=message)
