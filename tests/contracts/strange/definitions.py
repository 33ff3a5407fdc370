"""CustomResourceDefinitions that cannot be."""

from __future__ import annotations

from tests.contracts.strange.requests import CRDS, GROUP, RequestInfo, definition

_object = {"type": "object"}
DEFINITIONS = (
    RequestInfo("a definition of another name", "POST", CRDS, definition("trials", "Trial", name=f"others.{GROUP}")),
    RequestInfo(
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
    RequestInfo("a definition that stores nothing", "POST", CRDS, definition("trials", "Trial", storage=False)),
    RequestInfo("a definition without a schema", "POST", CRDS, definition("trials", "Trial", schema={})),
    RequestInfo(
        "a default that is no value",
        "POST",
        CRDS,
        definition(
            "trials",
            "Trial",
            {"type": "object", "properties": {"size": {"type": "string", "enum": ["a"], "default": "b"}}},
        ),
    ),
    RequestInfo(
        "a default of another type",
        "POST",
        CRDS,
        definition("trials", "Trial", {"type": "object", "properties": {"size": {"type": "integer", "default": "b"}}}),
    ),
    RequestInfo(
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
    RequestInfo(
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
    RequestInfo(
        "a default below its minimum",
        "POST",
        CRDS,
        definition(
            "trials",
            "Trial",
            {"type": "object", "properties": {"size": {"type": "integer", "minimum": 5, "default": 1}}},
        ),
    ),
    RequestInfo(
        "a default against its pattern",
        "POST",
        CRDS,
        definition(
            "trials",
            "Trial",
            {"type": "object", "properties": {"size": {"type": "string", "pattern": "^a$", "default": "b"}}},
        ),
    ),
    RequestInfo(
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
    RequestInfo(
        "a default in a list of alternatives",
        "POST",
        CRDS,
        definition("trials", "Trial", {"type": "object", "oneOf": [{"properties": {"size": {"default": 1}}}]}),
    ),
    RequestInfo(
        "a property without a type",
        "POST",
        CRDS,
        definition("trials", "Trial", {"type": "object", "properties": {"size": {}}}),
    ),
    RequestInfo(
        "a type that is none",
        "POST",
        CRDS,
        definition("trials", "Trial", {"type": "object", "properties": {"size": {"type": "thing"}}}),
    ),
    RequestInfo(
        "a pattern that is none",
        "POST",
        CRDS,
        definition("trials", "Trial", {"type": "object", "properties": {"size": {"type": "string", "pattern": "("}}}),
    ),
    RequestInfo(
        "a list without items",
        "POST",
        CRDS,
        definition("trials", "Trial", {"type": "object", "properties": {"size": {"type": "array"}}}),
    ),
    RequestInfo(
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
    RequestInfo(
        "a rule that is none",
        "POST",
        CRDS,
        definition("trials", "Trial", {"type": "object", "x-kubernetes-validations": [{"rule": "self."}]}),
    ),
    RequestInfo("a scale without its path", "POST", CRDS, definition("trials", "Trial", subresources={"scale": {}})),
    RequestInfo(
        "a scope that is none",
        "POST",
        CRDS,
        {**definition("trials", "Trial"), "spec": {**definition("trials", "Trial")["spec"], "scope": "Everywhere"}},
    ),
    RequestInfo(
        "a plural that is none",
        "POST",
        CRDS,
        {
            **definition("trials", "Trial"),
            "spec": {**definition("trials", "Trial")["spec"], "names": {"plural": "Trials", "kind": "Trial"}},
        },
    ),
)
