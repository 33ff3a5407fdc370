"""CustomResourceDefinitions that cannot be."""

from __future__ import annotations

from tests.contracts.edge_cases.requests import CRDS, DRY, GROUP, MERGE, Ask, definition

_object = {"type": "object"}
DEFINITIONS = (
    Ask("a definition of another name", "POST", CRDS, definition("trials", "Trial", name=f"others.{GROUP}")),
    Ask(
        "a definition of two stored versions",
        "POST",
        CRDS,
        {
            **definition("trials", "Trial"),
            "spec": {
                **definition("trials", "Trial")["spec"],
                "versions": [{**definition("trials", "Trial")["spec"]["versions"][0], "name": n} for n in ("v1", "v2")],
            },
        },
    ),
    Ask("a definition that stores nothing", "POST", CRDS, definition("trials", "Trial", storage=False)),
    Ask(
        "a condition of a definition without a type",
        "PATCH",
        f"{CRDS}/oddities.{GROUP}/status{DRY}",
        {"status": {"conditions": [{"status": "True"}]}},
        MERGE,
    ),
    Ask("a definition without a schema", "POST", CRDS, definition("trials", "Trial", schema={})),
    Ask(
        "a default that is no value",
        "POST",
        CRDS,
        definition(
            "trials",
            "Trial",
            {"type": "object", "properties": {"size": {"type": "string", "enum": ["a"], "default": "b"}}},
        ),
    ),
    Ask(
        "a default of another type",
        "POST",
        CRDS,
        definition("trials", "Trial", {"type": "object", "properties": {"size": {"type": "integer", "default": "b"}}}),
    ),
    Ask(
        "a default that lacks a field",
        "POST",
        CRDS,
        definition(
            "trials",
            "Trial",
            {
                "type": "object",
                "properties": {
                    "size": {
                        "type": "object",
                        "required": ["a"],
                        "properties": {"a": {"type": "string"}},
                        "default": {},
                    }
                },
            },
        ),
    ),
    Ask(
        "a default with an unknown field",
        "POST",
        CRDS,
        definition(
            "trials",
            "Trial",
            {
                "type": "object",
                "properties": {
                    "size": {"type": "object", "properties": {"a": {"type": "string"}}, "default": {"b": 1}}
                },
            },
        ),
    ),
    Ask(
        "a default below its minimum",
        "POST",
        CRDS,
        definition(
            "trials",
            "Trial",
            {"type": "object", "properties": {"size": {"type": "integer", "minimum": 5, "default": 1}}},
        ),
    ),
    Ask(
        "a default against its pattern",
        "POST",
        CRDS,
        definition(
            "trials",
            "Trial",
            {"type": "object", "properties": {"size": {"type": "string", "pattern": "^a$", "default": "b"}}},
        ),
    ),
    Ask(
        "a default that breaks a rule",
        "POST",
        CRDS,
        definition(
            "trials",
            "Trial",
            {
                "type": "object",
                "properties": {
                    "size": {"type": "integer", "default": 1, "x-kubernetes-validations": [{"rule": "self > 5"}]}
                },
            },
        ),
    ),
    Ask(
        "a default in a list of alternatives",
        "POST",
        CRDS,
        definition("trials", "Trial", {"type": "object", "oneOf": [{"properties": {"size": {"default": 1}}}]}),
    ),
    Ask(
        "a property without a type",
        "POST",
        CRDS,
        definition("trials", "Trial", {"type": "object", "properties": {"size": {}}}),
    ),
    Ask(
        "a type that is none",
        "POST",
        CRDS,
        definition("trials", "Trial", {"type": "object", "properties": {"size": {"type": "thing"}}}),
    ),
    Ask(
        "a pattern that is none",
        "POST",
        CRDS,
        definition("trials", "Trial", {"type": "object", "properties": {"size": {"type": "string", "pattern": "("}}}),
    ),
    Ask(
        "a list without items",
        "POST",
        CRDS,
        definition("trials", "Trial", {"type": "object", "properties": {"size": {"type": "array"}}}),
    ),
    Ask(
        "a list map without keys",
        "POST",
        CRDS,
        definition(
            "trials",
            "Trial",
            {
                "type": "object",
                "properties": {"size": {"type": "array", "items": _object, "x-kubernetes-list-type": "map"}},
            },
        ),
    ),
    Ask(
        "a rule that is none",
        "POST",
        CRDS,
        definition("trials", "Trial", {"type": "object", "x-kubernetes-validations": [{"rule": "self."}]}),
    ),
    Ask("a scale without its path", "POST", CRDS, definition("trials", "Trial", subresources={"scale": {}})),
    Ask(
        "a scope that is none",
        "POST",
        CRDS,
        {**definition("trials", "Trial"), "spec": {**definition("trials", "Trial")["spec"], "scope": "Everywhere"}},
    ),
    Ask(
        "a plural that is none",
        "POST",
        CRDS,
        {
            **definition("trials", "Trial"),
            "spec": {**definition("trials", "Trial")["spec"], "names": {"plural": "Trials", "kind": "Trial"}},
        },
    ),
)
