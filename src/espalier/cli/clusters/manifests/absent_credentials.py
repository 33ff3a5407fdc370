"""Credentials that a new cluster needs, and that neither a Secret nor the environment has: known before the first
write."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from contextlib import suppress

import msgspec

from espalier.api.core import SECRET, Secret
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.cli.clusters.manifests import documents
from espalier.cli.kit.failures import Failure
from espalier.clusters.design.provider import Dependency, Provider, Providers, needed
from espalier.clusters.design.secrets import credentials
from espalier.clusters.observe import references
from espalier.kube.client import Client
from espalier.kube.errors import Forbidden, NotFound
from espalier.kube.objects import Object, to_bytes


async def check(
    providers: Providers,
    client: Client,
    manifest: Sequence[Tree],
    from_environment: Sequence[Tree],
    environment: Mapping[str, str],
) -> None:
    """Raise `Failure` with the variables to set if a new Cluster of a manifest needs a Secret that does not suffice.

    `from_environment` are the Secrets that the command writes. What can't be read is left to the manager, and so is a
    Secret that does not suffice with all of its variables.
    """
    unset: dict[str, None] = {}
    needs: dict[str, None] = {}
    for tree in (body for body in manifest if body["kind"] == Cluster.resource.kind):
        cluster = msgspec.convert(tree, Cluster)
        reference = cluster.spec.datacenter_ref
        provider = providers.get(reference.kind) if reference is not None else None
        if provider is None:
            continue
        lacking, namespace = list[Dependency](), cluster.metadata.namespace
        for dependency in await _dependencies(providers, provider, client, cluster, tree, manifest):
            missing = [name for name in dependency.variables if not environment.get(name)]
            if missing and await _is_lacking(client, dependency, from_environment, namespace):
                unset |= dict.fromkeys(missing)
                lacking.append(dependency)
        for secret in needed(lacking):
            name = str(Key(SYSTEM_NAMESPACE, secret.name))
            told = credentials.advice(name, servers=secret.servers, namespace=namespace, fields=secret.fields)
            needs[f"{secret.places} needs {told}"] = None
    if unset:
        *others, last = unset
        names = f"variables {', '.join(others)} and {last}" if others else f"variable {last}"
        raise Failure(f"set the {names}, and run the command again; nothing was written: {'; '.join(needs)}")


async def _dependencies(
    providers: Providers,
    provider: Provider,
    client: Client,
    cluster: Cluster,
    tree: Tree,
    manifest: Sequence[Tree],
) -> list[Dependency]:
    """The Secrets that a Cluster needs; none if an object that it links can't be read."""
    others = [body for body in manifest if body["kind"] != Cluster.resource.kind]
    children = [Object(to_bytes(other)) for other in documents.linked(tree, others, providers)]
    linked = {(child.kind, child.name) for child in children}
    kinds = {kind.kind: kind for kind in provider.links.kinds}
    for _, reference in references.references(cluster.spec):
        named = (reference.kind, reference.name)
        if reference.kind not in kinds or named in linked:
            continue
        linked.add(named)
        try:
            children.append(await client.get(kinds[reference.kind], reference.name, cluster.metadata.namespace))
        except (Forbidden, NotFound):
            return []
    with suppress(LookupError, ValueError):
        depend = provider.links.depend(cluster, children)
        return [
            dependency
            for dependency in depend
            if dependency.resource == SECRET and dependency.server and not dependency.optional
        ]
    return []


async def _is_lacking(client: Client, dependency: Dependency, from_environment: Sequence[Tree], namespace: str) -> bool:
    """True if a Secret, with what the command writes into it, does not suffice."""
    try:
        stored = await client.get(SECRET, dependency.name, SYSTEM_NAMESPACE)
        data, annotations = dict(stored.decode(Secret).data), dict(stored.metadata.annotations)
    except Forbidden:
        return False
    except NotFound:
        data, annotations = {}, {}
    for secret in (body for body in from_environment if body["metadata"]["name"] == dependency.name):
        data |= {field: base64.b64decode(value) for field, value in secret["data"].items()}
        annotations |= credentials.widened(annotations, secret["metadata"]["annotations"])
    is_permitted = credentials.permits(annotations, server=dependency.server, namespace=namespace)
    return not is_permitted or bool(dependency.unusable(data, annotations))
