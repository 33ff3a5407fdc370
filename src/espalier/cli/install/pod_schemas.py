"""JSON schemas of parts of a pod's spec that users write themselves: what an API server would refuse is refused.

Patterns are in the dialect that Go and ECMA 262 share: a chart's schema is read by Helm.
"""

from __future__ import annotations

from espalier.api.meta import Tree
from espalier.api.text.patterns import LABEL_NAME, LABEL_VALUE
from espalier.cli.kit.flags import LABEL, OBJECT_NAME

MOST = 2**31 - 1
"""Counts of Kubernetes have 32 bits."""

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")

_KEY: Tree = {"type": "string", "pattern": LABEL_NAME}
_REQUIRED, _PREFERRED = (f"{word}DuringSchedulingIgnoredDuringExecution" for word in ("required", "preferred"))
_HAVE_VALUES, _HAVE_NONE, _COMPARE = ("In", "NotIn"), ("Exists", "DoesNotExist"), ("Gt", "Lt")

LABELS: Tree = {
    "type": "object",
    "propertyNames": {"pattern": LABEL_NAME},
    "additionalProperties": {"type": "string", "pattern": LABEL_VALUE},
}


def name(required: bool = True) -> Tree:
    """The name of an object; or nothing, unless it is required."""
    return {"type": "string", "pattern": f"^{OBJECT_NAME}$" if required else f"^({OBJECT_NAME})?$", "maxLength": 253}


def closed(required: tuple[str, ...] = (), /, **properties: Tree) -> Tree:
    """An object with no other fields than these."""
    needs = {"required": list(required)} if required else {}
    return {"type": "object", **needs, "properties": properties, "additionalProperties": False}


def some(item: Tree) -> Tree:
    """A list that is not empty."""
    return {"type": "array", "minItems": 1, "items": item}


def _any(item: Tree) -> Tree:
    return {"type": "array", "items": item}


def _where(field: str, words: tuple[str, ...], then: Tree) -> Tree:
    """A schema of objects in which a field has one of these values."""
    return {"if": {"required": [field], "properties": {field: {"enum": list(words)}}}, "then": then}


TOLERATIONS: Tree = _any(
    closed(
        key={"type": "string", "pattern": f"^$|{LABEL_NAME}"},
        operator={"enum": ["Exists", "Equal"]},
        value={"type": "string", "pattern": LABEL_VALUE},
        effect={"enum": ["", *EFFECTS]},
        tolerationSeconds={"type": "integer"},
    )
    | {
        "allOf": [
            _where("operator", ("Exists",), {"properties": {"value": {"maxLength": 0}}}),
            {
                "if": {"properties": {"key": {"maxLength": 0}}},
                "then": {"required": ["operator"], "properties": {"operator": {"const": "Exists"}}},
            },
            {
                "if": {"required": ["tolerationSeconds"]},
                "then": {"required": ["effect"], "properties": {"effect": {"const": "NoExecute"}}},
            },
        ]
    }
)


def _selected(compared: tuple[str, ...] = ()) -> Tree:
    """A requirement on a label."""
    return closed(
        ("key", "operator"),
        key=_KEY,
        operator={"enum": [*_HAVE_VALUES, *_HAVE_NONE, *compared]},
        values=_any({"type": "string", "pattern": LABEL_VALUE}),
    ) | {
        "allOf": [
            _where("operator", _HAVE_VALUES, {"required": ["values"], "properties": {"values": {"minItems": 1}}}),
            _where("operator", _HAVE_NONE, {"properties": {"values": {"maxItems": 0}}}),
            # An API server accepts what is no number; the scheduler then finds no node.
            _where(
                "operator",
                compared,
                {
                    "required": ["values"],
                    "properties": {"values": {"minItems": 1, "maxItems": 1, "items": {"pattern": "^-?[0-9]+$"}}},
                },
            ),
        ][: 3 if compared else 2]
    }


_NODES = closed(
    matchExpressions=_any(_selected(_COMPARE)),
    matchFields=_any(
        closed(
            ("key", "operator", "values"),
            key={"const": "metadata.name"},
            operator={"enum": list(_HAVE_VALUES)},
            values=some(name()) | {"maxItems": 1},
        )
    ),
)
_LABEL_SELECTOR = closed(matchLabels=LABELS, matchExpressions=_any(_selected()))
_PODS = closed(
    ("topologyKey",),
    topologyKey=_KEY,
    labelSelector=_LABEL_SELECTOR,
    namespaceSelector=_LABEL_SELECTOR,
    namespaces=_any({"type": "string", "pattern": f"^{LABEL}$"}),
    matchLabelKeys=_any(_KEY),
    mismatchLabelKeys=_any(_KEY),
)


def _weighted(field: str, term: Tree) -> Tree:
    weight: Tree = {"type": "integer", "minimum": 1, "maximum": 100}
    return _any(closed(("weight", field), **{"weight": weight, field: term}))


_PODS_AFFINITY = closed(**{_REQUIRED: _any(_PODS), _PREFERRED: _weighted("podAffinityTerm", _PODS)})
AFFINITY = closed(
    nodeAffinity=closed(
        **{
            _REQUIRED: closed(("nodeSelectorTerms",), nodeSelectorTerms=some(_NODES)),
            _PREFERRED: _weighted("preference", _NODES),
        }
    ),
    podAffinity=_PODS_AFFINITY,
    podAntiAffinity=_PODS_AFFINITY,
)
