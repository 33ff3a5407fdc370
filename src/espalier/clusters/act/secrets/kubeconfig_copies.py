"""Copies of kubeconfigs next to their Clusters, for users without rights on the system's namespace.

The manager reads nothing in users' namespaces, and only writes its own Secrets there. The type of a Secret is
immutable: copies have a type of their own, so the API server refuses to replace another Secret. (A patch would not do:
its response contains the object, so the right to patch is a right to read.)
"""

from __future__ import annotations

import hashlib
from typing import Literal

from espalier.api import core
from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.eksa.vocabulary.events import Event
from espalier.api.eksa.vocabulary.group import CLUSTER_NAME_LABEL, GROUP
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.meta import Condition, ObjectMeta
from espalier.api.resource import Key
from espalier.clusterapi import kubeconfig
from espalier.clusters.act.context import ClusterContext
from espalier.clusters.design import names
from espalier.kube.errors import Conflict, Forbidden, Invalid, NotFound
from espalier.kube.objects import Object
from espalier.runtime.controllers import owners
from espalier.runtime.controllers.sources import Expiry

TYPE = f"{GROUP}/kubeconfig"
"""The type of Secrets that are copies."""

CHECK_EVERY = 3600.0
"""The most seconds until a deleted copy is recreated: Secrets in users' namespaces are not watched."""

TRY_EVERY = 60.0


def is_copy(secret: Object) -> bool:
    """True if a Secret is a copy and not a user's own Secret of that name: the type decides, not the labels."""
    return secret.decode(core.Secret).type == TYPE


def digest_of(cluster: Object, content: bytes) -> str:
    """The digest on a Cluster whose kubeconfig was copied."""
    return hashlib.sha256(cluster.metadata.uid.encode() + content).hexdigest()[:16]


async def keep(ctx: ClusterContext) -> None:
    """Keep the copy up to date with the kubeconfig; a failure is reported in a condition and blocks nothing else.

    Only a kubeconfig that Cluster API made for this cluster is copied. Settled clusters are included, because the
    client certificate is renewed. The Cluster carries a digest of the copied kubeconfig.
    """
    scope, copies = ctx.scope, ctx.tools.copies
    if copies is None or scope.key.namespace == scope.cluster_identity.capi.namespace:
        ctx.copied = None
        return
    content = scope.capi_objects.kubeconfig
    if content is None:
        ctx.copied = _not_ours(ctx)
        return
    digest = digest_of(scope.object, content)
    is_copied = scope.cluster.metadata.annotations.get(metadata_keys.KUBECONFIG_ANNOTATION) == digest
    if copies.is_valid(scope.key, digest) and (is_copied or ctx.copied is not None):
        return  # removing the annotation with the digest recreates the copy
    if is_copied:
        # A manager that has just started sends no request, unless the last copy failed.
        if ctx.copied is not None or copies.has_expired(scope.key, digest):
            ctx.copied = await _write(ctx, content, replaces=False)  # the Secret is a copy already, or the user's own
        copies.keep(scope.key, digest, _until_check(ctx, copies, digest))
        return
    ctx.copied = await _write(ctx, content)
    copies.keep(scope.key, digest, _until_check(ctx, copies, digest))
    if ctx.copied is None:
        await ctx.annotate(eksa.Cluster.resource, scope.object, {metadata_keys.KUBECONFIG_ANNOTATION: digest})
        ctx.event("Normal", Event.KUBECONFIG_COPIED, f"copied the kubeconfig to Secret {_key(ctx).name}")


def _until_check(ctx: ClusterContext, copies: Expiry, digest: str) -> float:
    """The seconds until the next check of a copy. The first one comes after a part of them that depends on the key: a
    manager that starts looks at all Clusters at once, and would check all copies at once ever after.
    """
    seconds, key = CHECK_EVERY if ctx.copied is None else TRY_EVERY, ctx.scope.key
    return seconds if copies.has_expired(key, digest) else seconds * spread(key)


def spread(key: Key) -> float:
    """A number from a half to 1, the same for a key everywhere, and evenly spread over keys."""
    return 0.5 + int.from_bytes(hashlib.sha256(str(key).encode()).digest()[:4]) / 2**33


async def _write(ctx: ClusterContext, content: bytes, *, replaces: bool = True) -> Condition | None:
    """Create the copy, or replace it if it is ours. Returns the problem, if there is one."""
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
            Reason.KUBECONFIG_SECRET_TAKEN,
            f"Secret {key} exists and is not a copy made by this manager, so the manager does not change it; "
            f"delete it to have the kubeconfig copied within a minute. {_meanwhile(ctx)}",
        )
    except Forbidden as refusal:
        return _not_allowed(ctx, refusal)
    return None


def _copy(ctx: ClusterContext, content: bytes) -> core.Secret:
    key = _key(ctx)
    owner = owners.owner_reference(ctx.scope.object, controller=False, block_owner_deletion=False)
    metadata = ObjectMeta(
        name=key.name,
        namespace=key.namespace,
        labels={CLUSTER_NAME_LABEL: ctx.scope.key.name},
        owner_references=[owner],
    )
    return core.Secret(metadata=metadata, type=TYPE, data={kubeconfig.KEY: content})


def _key(ctx: ClusterContext) -> Key:
    return kubeconfig.secret_key(ctx.scope.key)


def _not_ours(ctx: ClusterContext) -> Condition | None:
    """The problem with a kubeconfig Secret that exists under the cluster's name and is not owned by the cluster."""
    secret = ctx.scope.capi_objects.kubeconfig_secret
    if secret is None or ctx.scope.capi_objects.cluster_object is None:
        return None
    return _trouble(
        Reason.KUBECONFIG_NOT_OF_THIS_CLUSTER,
        f"Secret {secret.key} does not belong to this cluster (neither its Cluster API Cluster nor its "
        "KubeadmControlPlane owns it), so it is neither used nor copied; delete it, and Cluster API creates the right "
        "one",
    )


def _not_allowed(ctx: ClusterContext, refusal: Forbidden) -> Condition:
    namespace = ctx.scope.key.namespace
    return _trouble(
        Reason.KUBECONFIG_COPY_NOT_ALLOWED,
        f"the API server refuses to copy the kubeconfig to Secret {_key(ctx)} ({refusal}); "
        f"an administrator can grant it with `espalier manifests --kubeconfig-copies --namespace {namespace}`. "
        f"{_meanwhile(ctx)}",
    )


def _meanwhile(ctx: ClusterContext) -> str:
    source = kubeconfig.secret_key(ctx.scope.cluster_identity.capi)
    command = f"espalier kubeconfig {ctx.scope.key.name} --namespace {ctx.scope.key.namespace}"
    return f"Until then `{command}` prints it to users who may read Secret {source}"


def _trouble(reason: str, message: str) -> Condition:
    status: Literal["False"] = "False"
    return Condition(type=names.KUBECONFIG_COPIED, status=status, reason=reason, message=message)
