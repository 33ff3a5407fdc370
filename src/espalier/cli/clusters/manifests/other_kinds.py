"""Objects of a manifest that are no part of a cluster: Secrets, Packages, Kustomizations and the like.

EKS Anywhere's command ignores them, as GitOps repositories have them beside a Cluster. Commands say so; with
`--all-kinds` they apply or delete them (decision 0163).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import click

from espalier.api.core import CUSTOM_RESOURCE_DEFINITION, NAMESPACE
from espalier.api.manifests.manifests import Document
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.api.text.listing import first
from espalier.api.text.printable import in_one_line, quoted
from espalier.cli.kit.failures import Failure
from espalier.cli.kit.printing import output
from espalier.kube.client import Client
from espalier.kube.discovery import Discovery
from espalier.kube.errors import NotFound

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

CONTAINERS = (NAMESPACE, CUSTOM_RESOURCE_DEFINITION)
"""Kinds whose deletion deletes objects that no manifest of ours has."""

_LONGEST_NAME = 200
_MOST_KINDS = 20


def flag(verb: str) -> Callable[[Decorated], Decorated]:
    """`--all-kinds`."""
    return click.option("--all-kinds", is_flag=True, help=f"Also {verb} objects of the manifest that no cluster has.")


def notes(others: Sequence[Document], what: str = "ignored") -> Iterator[str]:
    """A sentence for each object, with its place: that it is ignored."""
    for other in others:
        yield f"{other.source}:{other.line('kind')}: {_named(other)} is {what}: it is no part of a cluster"


def say(others: Sequence[Document], advice: str = "") -> None:
    """Print these sentences."""
    for text in notes(others):
        output.say_wrapped(f"Note: {in_one_line(text)}{advice}", stderr=True)


async def prepared(client: Client, others: Sequence[Document], namespace: str) -> list[tuple[Resource, Tree]]:
    """Resource and tree of each, with the default namespace filled in; Namespaces and CRDs come first.

    Raises `Failure` with every object that can't be applied: without a name, or of a kind that the server lacks.
    """
    if not others:
        return []
    served = {
        (offered.resource.api_version, offered.resource.kind): offered.resource
        for offered in await Discovery(client).resources()
    }
    problems, resources, is_unserved = [], [], False
    for other in others:
        place, resource = f"{other.source}:{other.line('kind')}", served.get((other.api_version, other.kind))
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
