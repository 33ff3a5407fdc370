"""Objects of a manifest that are no part of a cluster: Secrets, Packages, Kustomizations and the like.

EKS Anywhere's command ignores them, as GitOps repositories have them beside a Cluster. Commands say so; with
`--all-kinds` they apply or delete them (decision 0128).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import click
import msgspec

from espalier.api.core import CUSTOM_RESOURCE_DEFINITION, NAMESPACE
from espalier.api.manifests.manifests import Document
from espalier.api.meta import Observed, Tree
from espalier.api.resource import Key, Resource
from espalier.api.text.listing import first
from espalier.api.text.printable import in_one_line, quoted
from espalier.cli.kit.failures import Failure
from espalier.cli.kit.printing import output
from espalier.kube.client import Client
from espalier.kube.discovery import Discovery
from espalier.kube.errors import Forbidden, NotFound

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

CONTAINERS = (NAMESPACE, CUSTOM_RESOURCE_DEFINITION)
"""Kinds whose deletion deletes objects that no manifest of ours has."""

SERVED_WITHIN = 60.0
"""Seconds for an API server to serve a kind whose CustomResourceDefinition was written."""
_KUSTOMIZE, _ONLY_LISTED = "kustomize.config.k8s.io/", {"apiVersion", "kind", "metadata", "resources"}
_PAUSE = 0.2
_LONGEST_NAME = 200
_MOST_KINDS = 20


def flag(verb: str) -> Callable[[Decorated], Decorated]:
    """`--all-kinds`."""
    return click.option("--all-kinds", is_flag=True, help=f"Also {verb} objects of the manifest that no cluster has.")


def notes(others: Sequence[Document], what: str = "ignored") -> Iterator[str]:
    """A sentence for each object, with its place: that it is ignored."""
    for other in others:
        reason = "it is no part of a cluster"
        if other.api_version.startswith(_KUSTOMIZE) and other.tree.keys() - _ONLY_LISTED:
            reason = "to have what it changes, give -f - what `kubectl kustomize FOLDER` prints"
        yield f"{other.source}:{other.line('kind')}: {_named(other)} is {what}: {reason}"


def say(others: Sequence[Document], advice: str = "") -> None:
    """Print these sentences."""
    for text in notes(others):
        output.say_wrapped(f"Note: {in_one_line(text)}{advice}", stderr=True)


async def prepared(client: Client, others: Sequence[Document], namespace: str) -> list[tuple[Resource, Tree]]:
    """Resource and tree of each, with the default namespace filled in; Namespaces and CRDs come first.

    Raises `Failure` with every object that can't be applied: without a name, or of a kind that neither the server nor
    a CRD among the objects has.
    """
    if not others:
        return []
    served = await _served(client)
    usable = {(each.api_version, each.kind): each for document in others for each in _defined(document.tree)} | served
    problems, resources, is_unserved = [], [], False
    for other in others:
        place, resource = f"{other.source}:{other.line('kind')}", usable.get((other.api_version, other.kind))
        if resource is None:
            kind = quoted(f"{other.api_version} {other.kind}", _LONGEST_NAME)
            problems.append(f"{place}: the management cluster serves no {kind}; install it, or remove the object")
            is_unserved = True
        elif not other.name:
            problems.append(f"{place}: metadata.name: required field is missing; set it")
        else:
            if resource.namespaced:
                other.metadata.setdefault("namespace", namespace)
            resources.append((resource, other.tree))
    if is_unserved:
        problems.append(f"with --all-kinds, objects of any kind that it serves are taken: {_kinds(served.values())}")
    if problems:
        raise Failure("\n".join(problems))
    return sorted(resources, key=lambda item: item[0] not in CONTAINERS)


class Absent(NamedTuple):
    """Namespaces and kinds that an API server lacks, and that objects of a manifest need before it tries them."""

    namespaces: Collection[str]
    """Namespaces that do not exist yet."""
    kinds: Collection[Resource]
    """Kinds that are not served yet."""

    def needs(self, resource: Resource, tree: Tree) -> bool:
        """True for an object that needs some of it."""
        return resource in self.kinds or tree["metadata"].get("namespace") in self.namespaces

    def has(self, resource: Resource, tree: Tree) -> bool:
        """True for an object that is some of it."""
        if resource == NAMESPACE:
            return tree["metadata"]["name"] in self.namespaces
        return resource == CUSTOM_RESOURCE_DEFINITION and any(kind in self.kinds for kind in _defined(tree))

    def __str__(self) -> str:
        kinds = sorted({kind.kind for kind in self.kinds})
        parts = (
            self.namespaces and f"in namespace {', '.join(self.namespaces)}",
            kinds and f"of kind {', '.join(kinds)}",
        )
        return " or ".join(map(str, filter(None, parts)))


async def absent(client: Client, prepared: Sequence[tuple[Resource, Tree]]) -> Absent:
    """The Namespaces of a manifest that do not exist yet, and the kinds of its CRDs that are not served yet."""
    names = [tree["metadata"]["name"] for resource, tree in prepared if resource == NAMESPACE]
    definitions = [tree for resource, tree in prepared if resource == CUSTOM_RESOURCE_DEFINITION]
    served = set((await _served(client)).values()) if definitions else set()
    kinds = {kind for tree in definitions for kind in _defined(tree)} - served
    return Absent(await absent_namespaces(client, names), kinds)


def namespace_needed(name: str) -> str:
    """The sentence about a namespace of objects that does not exist."""
    return (
        f"namespace {name} does not exist: create it first, or have it in the manifest, and create the cluster with "
        "--all-kinds"
    )


async def absent_namespaces(client: Client, names: Iterable[str]) -> list[str]:
    """Those of these Namespaces that do not exist yet. One that the caller may not read counts as existing: whoever may
    not read it may not create it, and the server says so."""
    lacking = []
    for name in names:
        try:
            await client.get(NAMESPACE, name)
        except NotFound:
            lacking.append(name)
        except Forbidden:
            pass
    return lacking


async def until_served(client: Client, kinds: Collection[Resource]) -> None:
    """Wait until an API server serves these kinds, whose CRDs were written. Raises `Failure` if it does not."""
    missing = set(kinds)
    try:
        async with asyncio.timeout(SERVED_WITHIN):
            while True:
                missing -= set((await _served(client)).values())
                if not missing:
                    return
                await asyncio.sleep(_PAUSE)  # a watch of CRDs would show when they are accepted, not when served
    except TimeoutError:
        names = first(sorted(kind.group_resource for kind in missing), _MOST_KINDS)
        raise Failure(
            f"CustomResourceDefinition {names}: it was created, but the API server does not serve it after "
            f"{SERVED_WITHIN:g} s; its conditions say why (`kubectl describe crd NAME`)"
        ) from None


async def _served(client: Client) -> dict[tuple[str, str], Resource]:
    """The kinds of an API server."""
    offered = [entry.resource for entry in await Discovery(client).resources()]
    return {(resource.api_version, resource.kind): resource for resource in offered}


class _Names(Observed, frozen=True):
    kind: str
    plural: str


class _Version(Observed, frozen=True):
    name: str
    served: bool


class _Spec(Observed, frozen=True):
    group: str
    names: _Names
    scope: str
    versions: list[_Version]


def _defined(tree: Tree) -> list[Resource]:
    """The kinds that a CustomResourceDefinition defines; none of one that the API server will refuse, or of others."""
    definition = CUSTOM_RESOURCE_DEFINITION
    if (tree.get("apiVersion"), tree.get("kind")) != (definition.api_version, definition.kind):
        return []
    with suppress(msgspec.ValidationError):
        spec = msgspec.convert(tree.get("spec"), _Spec)
        names, namespaced = spec.names, spec.scope == "Namespaced"
        return [
            Resource(spec.group, version.name, names.plural, names.kind, namespaced)
            for version in spec.versions
            if version.served
        ]
    return []


def _kinds(served: Iterable[Resource]) -> str:
    """The kinds, those of Kubernetes itself before those that were installed."""
    names = sorted(
        {("." in resource.group and not resource.group.endswith(".k8s.io"), resource.kind) for resource in served}
    )
    return first([kind for _, kind in names], _MOST_KINDS)


async def delete(client: Client, targets: Sequence[tuple[Resource, Key]], *, dry_run: bool = False) -> None:
    """Delete objects, the last one first; some may be gone already."""
    for resource, key in reversed(targets):
        with suppress(NotFound):
            await client.delete(resource, key.name, key.namespace or None, dry_run=dry_run)


def is_container(document: Document) -> bool:
    """True for a Namespace or a CustomResourceDefinition."""
    return any((document.api_version, document.kind) == (kind.api_version, kind.kind) for kind in CONTAINERS)


def _named(document: Document) -> str:
    return quoted(f"{document.kind} {document.name}".strip(), _LONGEST_NAME)
