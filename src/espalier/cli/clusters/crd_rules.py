"""The schemas and rules that stand in CRDs, asked in this process: what a dry run on an API server would refuse.

They are those of this build; the CRDs of a management cluster may be others. Needs the library of CEL, which is of the
extra `local`: `ASKED` is false without it, and nothing here may be called then.
"""

from __future__ import annotations

import copy
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from itertools import zip_longest
from typing import Any, NamedTuple

import msgspec

from espalier.api import json_trees, paths
from espalier.api.crd import crd_of
from espalier.api.eksa import sentences
from espalier.api.kinds import KubeObject
from espalier.api.manifests import Document
from espalier.api.meta import Tree
from espalier.api.printable import quoted
from espalier.api.resource import Key
from espalier.api.violations import Problem, Violation
from espalier.apiserver.documents import custom_objects, definitions
from espalier.apiserver.schema import metadata, rules
from espalier.apiserver.schema.registry import Registry, ServedKind
from espalier.cli.clusters import documents
from espalier.clusters.preview import apply
from espalier.kube.errors import StatusCause
from espalier.kube.objects import Object
from espalier.providers.kinds import CATALOG

try:
    import_module("cel_expr_python")
except ImportError:
    ASKED = False
else:
    ASKED = True

NOT_ASKED = "rules of CRDs, for which Espalier needs its extra `local`"

_VALUE = re.compile(r'Invalid value: (?P<value>(?:"(?P<text>(?:[^"\\…]|\\.)*)"?|[^\s:]+)(?:… \(\d+ characters\))?): ')
"""The value as Kubernetes prints it before a message. Our rules include what they found in the message."""

_LONGEST = 1500
_FAILED = " evaluating rule: "


def refusals(new: Tree, old: Tree | None = None) -> list[StatusCause]:
    """Everything for which an API server would reject an object that replaces `old`, or is new. Both have metadata.
    Objects of other kinds than ours are not checked."""
    cls = CATALOG.kind_of(new.get("apiVersion", ""), new.get("kind", ""))
    if cls is None:
        return []
    kind, new = _served(cls), json_trees.without_nulls(new)
    by_rules = custom_objects.validate(kind, new, old).causes
    told = {one.field for one in by_rules}  # a rule of ours says what the kind allows of its name
    found = [*(one for one in metadata.problems(kind.resource, new["metadata"]) if one.field not in told), *by_rules]
    return [
        msgspec.structs.replace(one, field="" if one.field == rules.ROOT else one.field, message=_sentence(one.message))
        for one in found
        if one != rules.NOT_CHECKED
    ]


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


def problems(found: Sequence[Document], known: Sequence[Problem], live: Live = ALL_NEW) -> list[Problem]:
    """The same for the documents of a manifest, with their lines and without known problems."""
    refused = []
    for one, after in zip_longest(found, found[1:]):
        end = after.line("") if after is not None and after.source == one.source else sys.maxsize
        of_it = [other for other in known if other.source == one.source and one.line("") <= other.line < end]
        named = (one.tree.get("apiVersion"), one.tree.get("kind"))
        if not one.name or named != (one.api_version, one.kind) or documents.is_reported("metadata", of_it):
            continue
        if live.name(one) in live.unread:
            continue
        before = live.objects.get(live.name(one))
        new = _applied(before, one) if before is not None else one.tree
        for cause in _of_each_entry(new, before.tree if before is not None else None):
            if of_it and _FAILED in cause.message:
                continue  # the rule can't be evaluated for this value, whose type is already reported
            if cause.message.startswith(sentences.NEW_WITH_BUNDLES):
                continue  # an existing cluster may have them (`offline.py` says so)
            violation = Violation.of(cause.field, cause.message)
            if not documents.is_reported(violation.field, of_it):
                refused.append(one.problem(violation))
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
            others = [one for one in refusals(tree, old) if one.field == cause.field and _is_same_rule(one, cause)]
            entry = entries.without(others[0]) if others else None
            if entry is None:
                break
            yield entry


def _is_same_rule(one: StatusCause, other: StatusCause) -> bool:
    return Violation.of("", one.message).message == Violation.of("", other.message).message


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
        found, entries = Violation.of("", cause.message).found, self._entries
        step: paths.Step | None = None
        if isinstance(entries, dict):
            step = found if found in entries else next((name for name, one in entries.items() if one == found), None)
            entries.pop(step, None)
        elif isinstance(entries, list) and found in entries:
            at = entries.index(found)
            step = self._indexes.pop(at)
            del entries[at]
        if step is None:
            return None
        self.are_fewer = True
        return msgspec.structs.replace(cause, field=f"{self._field}[{step}]")


def _applied(before: Object, document: Document) -> Tree:
    return apply.applied(before, document.tree, now=datetime.now(UTC), by_espalier=True).tree


def _sentence(message: str) -> str:
    """A message in the format of our other rules. Without a value, `found` and what is allowed are part of it."""
    value = _VALUE.match(message)
    if value is None:
        return message.removeprefix("Invalid value: ")
    rest = message[value.end() :]
    said = rest if "; found " in rest or value["text"] in ("object", "array") else f"{rest}; found {value['value']}"
    return quoted(said, _LONGEST)


@cache
def _served(cls: type[KubeObject]) -> ServedKind:
    definition = crd_of(cls)
    definitions.complete(definition)
    definitions.establish(definition, None, Registry(()), now="")
    (served,) = definitions.kinds_of(definition)
    return served
