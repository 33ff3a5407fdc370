"""The schemas and rules that stand in CRDs, asked in this process: what a dry run on an API server would refuse.

They are those of this build; the CRDs of a management cluster may be others. The code that judges by them is part of
the local environment: `ASKED` is false where that is not installed, and nothing is refused here.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib import import_module
from itertools import zip_longest
from typing import Any, NamedTuple

import msgspec

from espalier.api.eksa.vocabulary import sentences
from espalier.api.manifests import manifests
from espalier.api.manifests.manifests import Document
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.api.text import paths
from espalier.api.text.violations import Problem, Violation
from espalier.cli.clusters.manifests import documents, rule_reads
from espalier.clusters.preview import apply
from espalier.kube.errors import StatusCause
from espalier.kube.objects import Object
from espalier.providers.kinds import CATALOG

_Judge = Callable[[Tree, Tree | None], list[StatusCause]]


def _judge() -> _Judge | None:
    try:
        module = import_module("espalier.cli.local.crd_refusals")
    except ModuleNotFoundError:
        return None
    judge: _Judge = module.refusals
    return judge


_JUDGE = _judge()
ASKED = _JUDGE is not None
NOT_ASKED = "rules of CRDs, for which Espalier needs its extra `local`"

_FAILED = " evaluating rule: "


def refusals(new: Tree, old: Tree | None = None) -> list[StatusCause]:
    """Everything for which an API server would reject an object that replaces `old`, or is new. Both have metadata.
    Objects of other kinds than ours are not checked, and none is where nothing can judge."""
    return _JUDGE(new, old) if _JUDGE is not None else []


class Live(NamedTuple):
    """The objects that the documents of a manifest would replace."""

    namespace: str = ""
    """Of documents that name none."""
    objects: Mapping[tuple[str, Key], Object] = {}
    unread: Collection[tuple[str, Key]] = ()
    """Those that could not be read: the API server judges what would replace them."""

    def name(self, document: Document) -> tuple[str, Key]:
        """Kind and key of the object of a document."""
        return document.kind, Key(document.namespace or self.namespace, document.name)


ALL_NEW = Live()


def problems(documents_: Sequence[Document], known: Sequence[Problem], live: Live = ALL_NEW) -> list[Problem]:
    """The same for the documents of a manifest, with their lines and without known problems."""
    refused = []
    for document, after in zip_longest(documents_, documents_[1:]):
        end = after.line("") if after is not None and after.source == document.source else sys.maxsize
        of_it = [other for other in known if other.source == document.source and document.line("") <= other.line < end]
        readable = [other for other in of_it if other.violation.message != manifests.NOT_A_NAMESPACE]
        named = (document.tree.get("apiVersion"), document.tree.get("kind"))
        if (
            not document.name
            or named != (document.api_version, document.kind)
            or documents.is_reported("metadata", readable)
        ):
            continue
        if live.name(document) in live.unread:
            continue
        before = live.objects.get(live.name(document))
        new = document.tree
        if before is not None:
            new = apply.applied(before, document.tree, now=datetime.now(UTC), by_espalier=True).tree
        of_rules = []
        for cause in _of_each_entry(new, before.tree if before is not None else None):
            if of_it and _FAILED in cause.message:
                continue  # the rule can't be evaluated for this value, whose type is already reported
            if cause.message.startswith(sentences.NEW_WITH_BUNDLES):
                continue  # an existing cluster may have them (`offline.py` says so)
            violation = Violation.of(cause.field, cause.message)
            if not documents.is_reported(violation.field, of_it):
                of_rules.append(violation)
        kind = CATALOG.kind_of(document.api_version, document.kind)
        if kind is not None:
            of_rules = rule_reads.without_consequences(kind, of_rules, [other.violation for other in of_it])
        refused += [document.problem(violation) for violation in of_rules]
    return refused


_MOST_ENTRIES = 20
"""Wrong entries of a map or list that are reported: each costs an evaluation."""


def _of_each_entry(new: Tree, old: Tree | None) -> Iterator[StatusCause]:
    """The refusals, of each wrong entry of a map or list: a rule about entries states only the first one."""
    for cause in refusals(new, old):
        tree = copy.deepcopy(new)
        entries = _Entries(tree, cause.field)
        yield entries.without(cause) or cause
        for _ in range(_MOST_ENTRIES if entries.are_fewer else 0):
            others = [
                other for other in refusals(tree, old) if other.field == cause.field and _is_same_rule(other, cause)
            ]
            entry = entries.without(others[0]) if others else None
            if entry is None:
                break
            yield entry


def _is_same_rule(cause: StatusCause, other: StatusCause) -> bool:
    return Violation.of("", cause.message).message == Violation.of("", other.message).message


class _Entries:
    """The entries of a map, or of a list of texts; of any other field, none."""

    def __init__(self, tree: Tree, field: str) -> None:
        self._field = field
        at: Any = tree
        for step in paths.parsed(field) or ():
            try:
                at = at[step]
            except (LookupError, TypeError):
                at = None
        self._entries = at
        self._indexes = list(range(len(at))) if isinstance(at, list) else []
        self.are_fewer = False
        """True once one was taken away."""

    def without(self, cause: StatusCause) -> StatusCause | None:
        """Take away the entry that a refusal has found. Returns the refusal of this entry; None if it is none."""
        value, entries = Violation.of("", cause.message).found, self._entries
        step: paths.PathStep | None = None
        if isinstance(entries, dict):
            step = (
                value if value in entries else next((name for name, schema in entries.items() if schema == value), None)
            )
            entries.pop(step, None)
        elif isinstance(entries, list) and value in entries:
            at = entries.index(value)
            step = self._indexes.pop(at)
            del entries[at]
        if step is None:
            return None
        self.are_fewer = True
        return msgspec.structs.replace(cause, field=f"{self._field}[{step}]")
