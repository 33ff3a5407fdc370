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
from espalier.api.listing import first
from espalier.api.manifests import Document
from espalier.api.meta import Tree
from espalier.api.printable import in_one_line, quoted
from espalier.api.resource import Key, Resource
from espalier.cli.kit import output
from espalier.cli.kit.failures import Failure
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
    for one in others:
        yield f"{one.source}:{one.line('kind')}: {_named(one)} is {what}: it is no part of a cluster"


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
        (one.resource.api_version, one.resource.kind): one.resource for one in await Discovery(client).resources()
    }
    problems, found, is_unserved = [], [], False
    for one in others:
        place, resource = f"{one.source}:{one.line('kind')}", served.get((one.api_version, one.kind))
        if resource is None:
            kind = quoted(f"{one.api_version} {one.kind}", _LONGEST_NAME)
            problems.append(f"{place}: the management cluster serves no {kind}; install it, or remove the object")
            is_unserved = True
        elif not one.name:
            problems.append(f"{place}: metadata.name: required field is missing; set it")
        else:
            if resource.namespaced:
                one.metadata.setdefault("namespace", namespace)
            found.append((resource, one.tree))
    if is_unserved:
        problems.append(f"with --all-kinds, objects of any kind that it serves are taken: {_kinds(served.values())}")
    if problems:
        raise Failure("\n".join(problems))
    return sorted(found, key=lambda item: item[0] not in CONTAINERS)


def _kinds(served: Iterable[Resource]) -> str:
    """The kinds, those of Kubernetes itself before those that were installed."""
    names = sorted({("." in one.group and not one.group.endswith(".k8s.io"), one.kind) for one in served})
    return first([kind for _, kind in names], _MOST_KINDS)


async def delete(client: Client, targets: Sequence[tuple[Resource, Key]], *, dry_run: bool = False) -> None:
    """Delete objects, the last one first; some may be gone already."""
    for resource, key in reversed(targets):
        with suppress(NotFound):
            await client.delete(resource, key.name, key.namespace or None, dry_run=dry_run)


def is_container(one: Document) -> bool:
    """True for a Namespace or a CustomResourceDefinition."""
    return any((one.api_version, one.kind) == (kind.api_version, kind.kind) for kind in CONTAINERS)


def _named(one: Document) -> str:
    return quoted(f"{one.kind} {one.name}".strip(), _LONGEST_NAME)
