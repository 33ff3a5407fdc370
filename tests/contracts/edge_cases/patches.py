"""Patches: JSON, merge and strategic merge."""

from __future__ import annotations

from typing import Any

from tests.contracts.edge_cases.requests import DEPLOYMENTS, MAPS, MERGE, ODDITIES, PATCH, STRATEGIC, Ask


def _patch(name: str, patch: Any, path: str = f"{MAPS}/here", type_: str = PATCH) -> Ask:
    return Ask(name, "PATCH", path, patch, type_)


PATCHES = (
    _patch("a merge patch that is a list", [], type_=MERGE),
    _patch("half a merge patch", "{", type_=MERGE),
    _patch("a merge patch of null", "null", type_=MERGE),
    _patch("no merge patch", None, type_=MERGE),
    _patch("a JSON patch that is a map", {}),
    _patch("a step of a JSON patch that is no map", [1]),
    _patch("a step that is not there", [{"op": "turn", "path": "/a"}]),
    _patch("a step without a path", [{"op": "add", "value": 1}]),
    _patch("a step without a value", [{"op": "add", "path": "/data/c"}]),
    _patch("a path without a slash", [{"op": "add", "path": "data", "value": {}}]),
    _patch("a test that fails", [{"op": "test", "path": "/data/a", "value": "5"}]),
    _patch("a test of what is not there", [{"op": "test", "path": "/data/z", "value": "5"}]),
    _patch("what is not there removed", [{"op": "remove", "path": "/data/z"}]),
    _patch("what is not there replaced", [{"op": "replace", "path": "/data/z", "value": ""}]),
    _patch("something added to nothing", [{"op": "add", "path": "/a/b/c", "value": ""}]),
    _patch("a place in a list that is none", [{"op": "add", "path": "/metadata/finalizers/5", "value": "a"}]),
    _patch("a JSON patch that breaks the type", [{"op": "add", "path": "/data/a", "value": 5}]),
    _patch("a JSON patch that breaks the object", [{"op": "replace", "path": "", "value": []}]),
    _patch("a patch of another kind", {"kind": "Secret"}, type_=MERGE),
    _patch("a patch of another version", {"apiVersion": "apps/v1"}, type_=MERGE),
    _patch("a patch of the name", {"metadata": {"name": "other"}}, type_=MERGE),
    _patch("a patch of the namespace", {"metadata": {"namespace": "other"}}, type_=MERGE),
    _patch("a patch of the uid", {"metadata": {"uid": "other"}}, type_=MERGE),
    _patch("a patch of an old version", {"metadata": {"resourceVersion": "1"}}, type_=MERGE),
    _patch("a patch of a version that is none", {"metadata": {"resourceVersion": "some"}}, type_=MERGE),
    _patch("a patch that takes the metadata", {"metadata": None}, type_=MERGE),
    _patch("a patch of what is not there", {}, f"{MAPS}/absent", MERGE),
    _patch("a strategic patch of nowhere", {"data": {"$patch": "turn"}}, type_=STRATEGIC),
    _patch("a strategic patch that is a list", [], type_=STRATEGIC),
    _patch(
        "a strategic patch without a key",
        {"spec": {"template": {"spec": {"containers": [{"image": "b"}]}}}},
        f"{DEPLOYMENTS}/web",
        STRATEGIC,
    ),
    _patch("a custom kind patched away", {"kind": "Nowhere"}, f"{ODDITIES}/here", MERGE),
    _patch("a custom patch against the schema", {"spec": {"size": "huge"}}, f"{ODDITIES}/here", MERGE),
    _patch("a custom test that fails", [{"op": "test", "path": "/spec/size", "value": "5"}], f"{ODDITIES}/here"),
)
