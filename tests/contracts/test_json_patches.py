"""Paths, indexes and tests of JSON patches mean on the embedded API server what they mean to kube-apiserver."""

from __future__ import annotations

import json
from typing import Any

from espalier.kube.client import Client
from espalier.kube.transports.wire import Request
from tests.support.servers.widgets import WIDGET, widget

FREE = {
    "list": [1, 2, 3],
    "maps": [{"a": 1}, {"a": 2}],
    "map": {"a": 1},
    "empty": [],
    "text": "x",
    "null": None,
    "one": 1,
    "yes": True,
    "half": 1.5,
    "a/b": "slash",
    "m~n": "tilde",
    "~1": "escaped",
    "": "no name",
    "angle": "a<b",
    "accent": "é",
}
REFUSED = "refused"

CHANGES: dict[str, tuple[str, Any]] = {
    # a patch, in short -> the fields that differ after it; None for one that is gone
    "add /list/-1 9": ("list", [1, 2, 3, 9]),
    "add /list/-4 9": ("list", [9, 1, 2, 3]),
    "add /list/-5 9": (REFUSED, None),
    "add /list/-0 9": ("list", [9, 1, 2, 3]),
    "add /list/01 9": ("list", [1, 9, 2, 3]),
    "add /list/+1 9": ("list", [1, 9, 2, 3]),
    "add /list/3 9": ("list", [1, 2, 3, 9]),
    "add /list/4 9": (REFUSED, None),
    "add /list/x 9": (REFUSED, None),
    "add /list/1_0 9": (REFUSED, None),
    "add /list/1.0 9": (REFUSED, None),
    "add /empty/-1 9": ("empty", [9]),
    "remove /list/-1": ("list", [1, 2]),
    "remove /list/-4": (REFUSED, None),
    "remove /list/-": (REFUSED, None),
    "remove /absent": (REFUSED, None),
    "remove /null": ("null", None),
    "replace /list/-3 9": ("list", [9, 2, 3]),
    "replace /list/-": (REFUSED, None),
    "replace /list/3 9": (REFUSED, None),
    "replace /absent 9": ("absent", 9),
    "replace /absent/b 9": (REFUSED, None),
    "replace /maps/-1/a 9": ("maps", [{"a": 1}, {"a": 9}]),
    "add /text/0 9": (REFUSED, None),
    "add /null/b 9": (REFUSED, None),
    "add /~01 9": ("~1", 9),
    "add /m~2 9": ("m~2", 9),
    "add /m~ 9": ("m~", 9),
    "add /~10 9": ("/0", 9),
    "add / 9": ("", 9),
    "move /list/0 /list/-": ("list", [2, 3, 1]),
    "move /list/0 /list/3": (REFUSED, None),
    "move /list/-1 /list/0": ("list", [3, 1, 2]),
    "move /map /map/b": (REFUSED, None),
    "move /maps/0 /maps/0/b": ("maps", [{"a": 2, "b": {"a": 1}}]),
    "move /one /one": ("one", 1),
    "move /absent /x": (REFUSED, None),
    "copy /map /map/b": ("map", {"a": 1, "b": {"a": 1}}),
    "copy /list /list/0": ("list", [[1, 2, 3], 1, 2, 3]),
    "copy /list/-1 /list/0": ("list", [3, 1, 2, 3]),
    "copy /list/- /list/0": (REFUSED, None),
    "copy /absent /text": ("text", None),
}

TESTS: dict[tuple[str, str], bool] = {
    ("/one", "1"): True,
    ("/one", "1.0"): False,
    ("/one", "1e0"): False,
    ("/one", "true"): False,
    ("/one", '"1"'): False,
    ("/yes", "1"): False,
    ("/yes", "true"): True,
    ("/half", "1.5"): True,
    ("/half", "1.50"): False,
    ("/map", '{ "a" : 1 }'): True,
    ("/map", '{"a": 1.0}'): False,
    ("/map", '{"a": 1, "b": null}'): False,
    ("/list", "[1, 2, 3]"): True,
    ("/list", "[1, 2]"): False,
    ("/empty", "[]"): True,
    ("/empty", "{}"): False,
    ("/empty", "null"): False,
    ("/null", "null"): True,
    ("/absent", "null"): True,
    ("/absent/b", "null"): False,
    ("/list/9", "null"): False,
    ("/list/-1", "3"): True,
    ("/list/01", "2"): True,
    ("/maps/-1/a", "2"): True,
    ("/a~1b", '"slash"'): True,
    ("/m~n", '"tilde"'): True,
    ("/m~0n", '"tilde"'): True,
    ("/~01", '"escaped"'): True,
    ("/~1", '"escaped"'): False,
    ("/angle", '"a<b"'): False,
    ("/angle", r'"a\u003cb"'): True,
    ("/accent", '"é"'): True,
    ("/accent", r'"\u00e9"'): False,
    ("/text", r'"\u0078"'): False,
}


async def patched(client: Client, namespace: str, body: str) -> tuple[int, Any]:
    """Status, and the free fields of the Widget as it would be after a patch."""
    headers = {"content-type": "application/json-patch+json"}
    path = WIDGET.path(namespace, "a")
    answer = await client.raw(Request("PATCH", path, {"dryRun": "All"}, headers, body.encode()))
    return answer.status, json.loads(answer.body).get("spec", {}).get("free")


def operation(text: str) -> str:
    op, *paths = text.split(" ")
    if op in ("move", "copy"):
        return json.dumps([{"op": op, "from": f"/spec/free{paths[0]}", "path": f"/spec/free{paths[1]}"}])
    return json.dumps([{"op": op, "path": f"/spec/free{paths[0]}", "value": 9}])


async def test_json_patches_change_what_they_do_really(client: Client, widgets: str) -> None:
    await client.create(WIDGET, widget(widgets, "a", {"free": FREE}))
    results: dict[str, Any] = {}
    wanted: dict[str, Any] = {}
    for text, (field, value) in CHANGES.items():
        status, free = await patched(client, widgets, operation(text))
        results[text] = free if status == 200 else status
        after = {**FREE, field: value}
        if text == "remove /null":
            del after[field]
        wanted[text] = 422 if field == REFUSED else after
    assert results == wanted


async def test_json_patches_test_what_they_do_really(client: Client, widgets: str) -> None:
    await client.create(WIDGET, widget(widgets, "a", {"free": FREE}))
    results: dict[tuple[str, str], bool] = {}
    for path, value in TESTS:
        body = f'[{{"op": "test", "path": "/spec/free{path}", "value": {value}}}]'
        status, _ = await patched(client, widgets, body)
        results[path, value] = {200: True, 422: False}[status]
    assert results == TESTS


async def test_json_patches_without_a_part_are_as_real(client: Client, widgets: str) -> None:
    await client.create(WIDGET, widget(widgets, "a", {"free": FREE}))
    cases = {
        '[{"op": "add", "path": "/spec/free/one"}]': (200, {**FREE, "one": None}),
        '[{"op": "test", "path": "/spec/free/absent"}]': (200, FREE),
        '[{"op": "test", "path": "/spec/free/one"}]': (422, None),
        '[{"op": "add", "path": "x/spec/free/one", "value": 9}]': (200, {**FREE, "one": 9}),
        '[{"op": "add", "path": "spec", "value": 9}]': (422, None),
        '[{"op": "remove", "path": ""}]': (422, None),
        '[{"op": "copy", "from": "", "path": "/spec/free/one"}]': (422, None),
        '[{"op": "copy", "path": "/spec/free/one"}]': (422, None),
        '[{"path": "/spec/free/one", "value": 9}]': (422, None),
        '[{"op": "add", "path": null, "value": 9}]': (422, None),
        '[{"op": "add", "path": 5, "value": 9}]': (400, None),
        '[{"op": 5, "path": "/spec/free/one", "value": 9}]': (400, None),
        '[{"op": "copy", "from": 5, "path": "/spec/free/one"}]': (400, None),
        "[null]": (422, None),
        "null": (200, FREE),
        "[]": (200, FREE),
    }
    assert {body: await patched(client, widgets, body) for body in cases} == cases
