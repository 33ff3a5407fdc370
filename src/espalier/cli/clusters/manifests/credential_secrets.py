"""The Secrets with credentials that commands write: with the servers and namespaces that need them, and no others.

Several commands may write one at the same time, so each write names the version that was read. The list of who may use
a Secret is widened by a new cluster, and narrowed by new credentials and by the deletion of a cluster (decision 0071).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress

from espalier.api.core import SECRET
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.cli.kit.failures import Failure
from espalier.clusters.design.provider import Providers
from espalier.clusters.design.secrets import credentials
from espalier.clusters.observe.rules import messages
from espalier.clusters.observe.uses import credential_uses
from espalier.clusters.observe.uses.credential_uses import Use, Uses
from espalier.kube.client import Client
from espalier.kube.errors import AlreadyExists, Conflict, Forbidden, NotFound
from espalier.kube.objects import Object, encode_json

_ATTEMPTS = 20
"""Each attempt that fails is one in which another command has succeeded."""


async def bring(providers: Providers, client: Client, secret: Tree, *, alternative: str = "") -> str:
    """Write a Secret, or give it the fields of this one, for the servers and namespaces of this one as well. Returns
    what was done.

    New credentials reach every server that the Secret permits. So those that no cluster uses any more are left out, and
    with one that another cluster uses, nothing is written: raises `Failure`, also without the right. `alternative` is
    the field with which a manifest names another Secret.
    """
    metadata = secret["metadata"]
    key = Key(metadata["namespace"], metadata["name"])
    try:
        for _ in range(_ATTEMPTS):
            try:
                return await _bring(providers, client, key, secret, alternative)
            except (AlreadyExists, Conflict):
                continue
    except Forbidden as error:
        raise Failure(
            f"environment variables give credentials, and Secret {key} may not be written: {error}; "
            "ask somebody with permission to write it, and unset them"
        ) from None
    raise Failure(f"Secret {key} is being changed by others all the time; run the command again")


async def _bring(providers: Providers, client: Client, key: Key, secret: Tree, alternative: str) -> str:
    done = f"Secret {key} has the credentials of the environment"
    try:
        stored = await client.get(SECRET, key.name, key.namespace)
    except NotFound:
        await client.create(SECRET, secret)
        return done
    asked = secret["metadata"]["annotations"]
    present, data = _annotations(stored), stored.tree.get("data") or {}
    annotations = credentials.widened(present, asked)
    changed = [field for field, value in secret["data"].items() if data.get(field) != value]
    if changed and annotations != credentials.widened({}, asked):  # others would get the new credentials
        uses = await _uses(providers, client, key)
        if obstacle := _obstacle(key, present, asked, uses, changed, alternative):
            raise Failure(obstacle)
        if not uses.unknown:
            needed = credentials.narrowed(
                present,
                servers={use.server for use in uses.known},
                namespaces={use.cluster.namespace for use in uses.known},
            )
            annotations = credentials.widened(needed, asked)
    if dropped := credentials.left_out(present, annotations):
        done += f", and is no longer for {', '.join(dropped)}, which no cluster uses"
    content = {**data, **secret["data"]}  # other clusters may need what is not given
    if content != data or any(present.get(name) != value for name, value in annotations.items()):
        metadata = {**secret["metadata"], "annotations": annotations, "resourceVersion": stored.resource_version}
        await client.apply(SECRET, {**secret, "metadata": metadata, "data": content})
    return done


def _obstacle(
    key: Key,
    present: Mapping[str, str],
    asked: Mapping[str, str],
    uses: Uses,
    changed: Sequence[str],
    alternative: str,
) -> str:
    """Why changed credentials can't be written, and the remedies; empty if they can."""
    others = set(credentials.servers_beside(present, asked))
    if not others:
        return ""
    used = {credentials.host(use.server): use.cluster for use in reversed(uses.known)}
    in_use = [f"{server}, which cluster {used[server]} uses" for server in sorted(others & used.keys())]
    if not in_use and not uses.unknown:
        return ""
    if not in_use:
        clusters = messages.listed(list(uses.unknown))
        in_use = [f"{', '.join(sorted(others))}, which may be in use: linked objects of cluster {clusters} are missing"]
    patch = ", ".join(f'"{field}": "..."' for field in changed)
    remedies = [
        f"if it is the account of all these servers, change the Secret with `kubectl -n {key.namespace} patch secret "
        f"{key.name} -p '{{\"stringData\": {{{patch}}}}}'`, and run the command again"
    ]
    remedies += [f"otherwise name another Secret in {alternative}"] if alternative else []
    remedies += ["delete that cluster, or create what it lacks"] if in_use and not (others & used.keys()) else []
    return (
        f"Secret {key} has other credentials than the environment, and would give those of the environment to "
        f"{'; '.join(in_use)}. Nothing was written: {'; '.join(remedies)}"
    )


async def granted(providers: Providers, client: Client, cluster: Key) -> Sequence[Use]:
    """The uses by a Cluster, to be read before it is deleted; none if they can't be read, or if it does not exist."""
    try:
        stored = await client.get(Cluster.resource, cluster.name, cluster.namespace)
        objects = [stored, *await _linked(providers, client, [stored], cluster.namespace)]
    except (Forbidden, NotFound):
        return ()
    return credential_uses.of(providers, objects).known


async def release(providers: Providers, client: Client, deleted: Sequence[Use]) -> list[str]:
    """Take the servers and the namespace of a deleted cluster out of Secrets that commands wrote, where no other
    cluster uses them. Returns what was done. Without the right, nothing is.
    """
    done = []
    for name in dict.fromkeys(use.secret for use in deleted):
        key = Key(SYSTEM_NAMESPACE, name)
        own = [use for use in deleted if use.secret == name]
        for _ in range(_ATTEMPTS):
            try:
                if dropped := await _release(providers, client, key, own):
                    done.append(f"Secret {key} is no longer for {', '.join(dropped)}, which no cluster uses")
            except Conflict:
                continue
            except (Forbidden, NotFound):
                pass
            break
    return done


def granted_by(providers: Providers, manifest: Iterable[Tree]) -> Sequence[Use]:
    """The uses by the Cluster of a manifest, which need not exist."""
    return credential_uses.of(providers, [Object(encode_json(tree)) for tree in manifest]).known


async def stored_manifest(providers: Providers, client: Client, cluster: Key) -> list[Tree]:
    """A Cluster and what it links, as in a manifest; none if it does not exist."""
    try:
        stored = await client.get(Cluster.resource, cluster.name, cluster.namespace)
    except NotFound:
        return []
    objects = [*await _linked(providers, client, [stored], cluster.namespace), stored]
    return [
        {"apiVersion": tree["apiVersion"], "kind": tree["kind"], "metadata": item.key._asdict(), "spec": tree["spec"]}
        for item in objects
        if "spec" in (tree := item.tree)
    ]


async def withdraw(providers: Providers, client: Client, moved: Sequence[Use]) -> list[str]:
    """Delete the Secrets that commands wrote for a cluster which another management cluster has now, and that permit
    nothing else. Returns what was done. Without the right, nothing is.
    """
    done = []
    servers, namespaces = {use.server for use in moved}, {use.cluster.namespace for use in moved}
    for name in dict.fromkeys(use.secret for use in moved):
        with suppress(Conflict, Forbidden, NotFound):  # by a change, somebody else needs it
            stored = await client.get(SECRET, name, SYSTEM_NAMESPACE)
            permitted = credentials.listed(_annotations(stored))
            is_for_it = {server.lower() for server in permitted[0]} <= servers and permitted[1] <= namespaces
            writers = {entry.get("manager") for entry in stored.tree["metadata"].get("managedFields") or ()}
            if not is_for_it or writers != {client.field_manager}:
                continue
            uses = await _uses(providers, client, stored.key)
            if uses.known or uses.unknown:
                continue
            metadata = stored.metadata
            await client.delete(
                SECRET, name, SYSTEM_NAMESPACE, uid=metadata.uid, resource_version=stored.resource_version
            )
            done.append(f"Secret {stored.key} is deleted: no cluster uses it")
    return done


async def _release(providers: Providers, client: Client, key: Key, own: Sequence[Use]) -> list[str]:
    stored = await client.get(SECRET, key.name, key.namespace)
    if not _is_of_commands(stored, client.field_manager):
        return []
    present = _annotations(stored)
    after = await _without(providers, client, key, present, own)
    if not (dropped := credentials.left_out(present, after)):
        return []
    secret = stored.tree
    applied: Tree = {
        **{field: secret[field] for field in ("apiVersion", "kind", "type", "data") if field in secret},
        "metadata": {
            "name": key.name,
            "namespace": key.namespace,
            "annotations": after,
            "resourceVersion": stored.resource_version,
        },
    }
    written = await client.apply(SECRET, applied)
    # A cluster that was created in the meantime may have found its server permitted, and need it.
    again = await _without(providers, client, key, present, own)
    if again != after:
        applied["metadata"] |= {"annotations": again, "resourceVersion": written.resource_version}
        await client.apply(SECRET, applied)
        dropped = credentials.left_out(present, again)
    return dropped


async def _without(
    providers: Providers, client: Client, key: Key, present: Mapping[str, str], own: Sequence[Use]
) -> dict[str, str]:
    """The annotations without what only these uses need."""
    uses = await _uses(providers, client, key)
    if uses.unknown:
        return {name: present.get(name, "") for name in (credentials.SERVERS, credentials.NAMESPACES)}
    servers, namespaces = credentials.listed(present)
    return credentials.narrowed(
        present,
        servers=({server.lower() for server in servers} - {use.server for use in own})
        | {use.server for use in uses.known},
        namespaces=(namespaces - {use.cluster.namespace for use in own})
        | {use.cluster.namespace for use in uses.known},
    )


async def _uses(providers: Providers, client: Client, key: Key) -> Uses:
    """The uses of a Secret by all Clusters. Raises `Forbidden`."""
    try:
        clusters = (await client.list(Cluster.resource)).items
    except NotFound:
        return Uses((), ())
    objects = [*clusters, *await _linked(providers, client, clusters, None)]
    uses = credential_uses.of(providers, objects)
    return uses._replace(known=[use for use in uses.known if use.secret == key.name])


async def _linked(
    providers: Providers, client: Client, clusters: Collection[Object], namespace: str | None
) -> list[Object]:
    listed: list[Object] = []
    for kind in credential_uses.kinds(providers, clusters):
        try:
            listed += (await client.list(kind, namespace)).items
        except NotFound:
            continue
    return listed


def _annotations(object_: Object) -> Mapping[str, str]:
    return (object_.tree.get("metadata") or {}).get("annotations") or {}


def _is_of_commands(secret: Object, manager: str) -> bool:
    """True if only commands wrote whom a Secret is for: what somebody wrote by hand stays."""
    owners = {
        entry.get("manager")
        for entry in secret.tree["metadata"].get("managedFields") or ()
        if f"f:{credentials.SERVERS}"
        in (((entry.get("fieldsV1") or {}).get("f:metadata") or {}).get("f:annotations") or {})
    }
    return owners == {manager}
