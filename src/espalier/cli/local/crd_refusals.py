"""Refusals by the schemas and rules in the CRDs of this build, judged as the embedded API server does.

`cli/clusters/manifests/crd_rules.py` looks it up: it is not there where the local environment is not installed.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module

import msgspec

from espalier.api.definitions.crd import crd_of
from espalier.api.kinds import KubeObject
from espalier.api.meta import Tree
from espalier.api.text.printable import quoted
from espalier.api.trees import json_trees
from espalier.apiserver.documents import custom_objects, definitions
from espalier.apiserver.schema import metadata, rules
from espalier.apiserver.schema.registry import Registry, ServedKind
from espalier.kube.errors import StatusCause
from espalier.providers.kinds import CATALOG

import_module("cel_expr_python")  # without which no rule can be evaluated: said here, not at the first rule

_VALUE = re.compile(r'Invalid value: (?P<value>(?:"(?P<text>(?:[^"\\…]|\\.)*)"?|[^\s:]+)(?:… \(\d+ characters\))?): ')
"""The value as Kubernetes prints it before a message. Our rules include what they found in the message."""

_PATTERN = re.compile(r", regex used for validation is '.*?'(?=\))")
"""The part of messages of Kubernetes for those who read regular expressions, after examples for everybody."""

_LONGEST = 1500


def refusals(new: Tree, old: Tree | None) -> list[StatusCause]:
    """Everything for which an API server would reject an object that replaces `old`, or is new. Both have metadata.
    Objects of other kinds than ours are not checked."""
    cls = CATALOG.kind_of(new.get("apiVersion", ""), new.get("kind", ""))
    if cls is None:
        return []
    kind, new = _served(cls), json_trees.without_nulls(new)
    by_rules = custom_objects.validate(kind, new, old).causes
    told = {cause.field for cause in by_rules}  # a rule of ours says what the kind allows of its name
    causes = [
        *(cause for cause in metadata.problems(kind.resource, new["metadata"]) if cause.field not in told),
        *by_rules,
    ]
    return [
        msgspec.structs.replace(
            cause, field="" if cause.field == rules.ROOT else cause.field, message=_sentence(cause.message)
        )
        for cause in causes
        if cause != rules.NOT_CHECKED
    ]


def _sentence(message: str) -> str:
    """A message in the format of our other rules. Without a value, `found` and what is allowed are part of it."""
    message = _PATTERN.sub("", message)
    value = _VALUE.match(message)
    if value is None:
        return message.removeprefix("Invalid value: ")
    rest = message[value.end() :]
    sentence = rest if "; found " in rest or value["text"] in ("object", "array") else f"{rest}; found {value['value']}"
    return quoted(sentence, _LONGEST)


@cache
def _served(cls: type[KubeObject]) -> ServedKind:
    definition = crd_of(cls)
    definitions.complete(definition)
    definitions.establish(definition, None, Registry(()), now="")
    (served,) = definitions.kinds_of(definition)
    return served
