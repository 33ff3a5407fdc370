"""Server-side apply."""

from __future__ import annotations

from typing import Any

from tests.contracts.edge_cases.requests import APPLY, MAPS, ODDITIES, SERVICES, Ask, configured, odd, service


def _apply(name: str, config: Any, path: str = f"{MAPS}/strange?fieldManager=a") -> Ask:
    return Ask(name, "PATCH", path, config, APPLY)


APPLIES = (
    _apply("an apply of nobody", configured(), f"{MAPS}/strange"),
    _apply("an apply without a version", {"metadata": {"name": "strange"}}),
    _apply("an apply of an empty object", {}),
    _apply("an apply of a list", "- a"),
    _apply("an apply of broken YAML", "a: {"),
    _apply("an apply without a name", {"apiVersion": "v1", "kind": "ConfigMap"}),
    _apply("an apply of another name", configured(name="other")),
    _apply("an apply of another kind", {**configured(), "kind": "Secret"}),
    _apply("an apply of another version", {**configured(), "apiVersion": "v2"}),
    _apply("an apply of another namespace", configured(namespace="default")),
    _apply("an apply of managed fields", configured(managedFields=[{}])),
    _apply("an apply of a version of null", {**configured(), "apiVersion": None}),
    _apply("an apply of metadata that are a list", {**configured(), "metadata": [1, {"a": None}]}),
    _apply("an apply of a name that is a number", configured(name=1)),
    _apply("an apply of a namespace that is a number", configured(namespace=5)),
    _apply("an apply of null in a set", configured(finalizers=[None])),
    _apply("an apply of null in a list with keys", service(ports=[None]), f"{SERVICES}/strange?fieldManager=a"),
    _apply("an apply of an unknown field", {**configured(), "date": {}}),
    _apply("an apply of another type", configured({"a": 5})),
    _apply("an apply of a uid", configured(uid="some")),
    _apply("an apply of a resource version", configured(resourceVersion="5")),
    _apply("an apply of the fields of somebody", configured({"a": "5"}, name="here"), f"{MAPS}/here?fieldManager=a"),
    _apply(
        "an apply of two fields of somebody",
        configured({"a": "5", "b": "5"}, name="here"),
        f"{MAPS}/here?fieldManager=a",
    ),
    _apply(
        "an apply of a key twice",
        odd(spec={"size": "small", "parts": [{"id": "a"}, {"id": "a"}]}),
        f"{ODDITIES}/strange?fieldManager=a",
    ),
    _apply("an apply without a key", odd(spec={"size": "small", "parts": [{}]}), f"{ODDITIES}/strange?fieldManager=a"),
    _apply(
        "an apply of an unknown custom field", odd(spec={"size": "small", "a": 1}), f"{ODDITIES}/strange?fieldManager=a"
    ),
    _apply("an apply of another custom type", odd(spec={"size": 5}), f"{ODDITIES}/strange?fieldManager=a"),
    _apply("an apply of a status that is not there", odd("absent"), f"{ODDITIES}/absent/status?fieldManager=a"),
)
