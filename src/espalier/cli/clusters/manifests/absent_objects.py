"""References of a Cluster to objects that do not exist, as commands report them before anything is sent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from espalier.api.manifests.manifests import Document
from espalier.api.resource import Key
from espalier.api.text.violations import Violation
from espalier.cli.clusters.manifests import documents
from espalier.clusters.observe.references import Missing


class Given(NamedTuple):
    """An object of the manifest."""

    kind: str
    key: Key

    def __str__(self) -> str:
        return f"{self.kind} {self.key.name} in namespace {self.key.namespace}"


def given_by(documents_: Iterable[Document], namespace: str) -> list[Given]:
    """All objects of a manifest, also those of which nothing can be made; those without a namespace are in this one."""
    return [Given(item.kind, Key(item.namespace or namespace, item.name)) for item in documents_]


def violations(
    missing: Iterable[Missing], *, given: Sequence[Given] = (), refused: Sequence[str] = ()
) -> list[Violation]:
    """A violation for each field that names an object that does not exist.

    Left out are Secrets with credentials, the `given` objects of which nothing can be made, and references that are
    `refused` themselves, by field.
    """
    named = {
        reference.field: reference.what
        for reference in missing
        if not reference.is_credentials and not any(_is_about(reference.what, object_) for object_ in given)
    }
    return [
        Violation(field, "", "", f"names {what}; {_advice(what, given)}")
        for field, what in named.items()
        if not any(documents.is_within(other, field) for other in refused)
    ]


def _advice(what: str, given: Sequence[Given]) -> str:
    elsewhere = [item.key.namespace for item in given if what.startswith(f"{item.kind} {item.key.name} in namespace ")]
    if not elsewhere:
        return "add it to the manifest"
    there = ", ".join(dict.fromkeys(elsewhere))
    return f"the manifest has it in namespace {there}: give both the same namespace, a Cluster links no other's objects"


def _is_about(what: str, given: Given) -> bool:
    return what.startswith(f"{given},")
