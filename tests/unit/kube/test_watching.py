"""A watch hands out events undecoded, ends when the server ends it, and says why when it can't go on."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.api.resource import Resource
from espalier.kube.errors import ApiError, Expired, Forbidden, NotKubernetes
from espalier.kube.watching import decode_event
from tests.support.servers.scripted_server import Documents, Script, client_of, failure

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")


def config_map(name: str, version: int) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "ns", "resourceVersion": str(version)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def document(type_: str, object_: object) -> bytes:
    return msgspec.json.encode({"type": type_, "object": object_})


async def test_watch_resumes_with_bookmarks() -> None:
    stream = Documents(
        [document("ADDED", config_map("a", 4)), document("BOOKMARK", {"metadata": {"resourceVersion": "9"}})]
    )
    script = Script(stream)
    events = client_of(script).watch(CONFIG_MAPS, "ns", resource_version="3", labels="a=b", timeout_seconds=300)
    seen = [(event.type, event.object.name, event.object.resource_version) async for event in events]
    assert seen == [("ADDED", "a", "4"), ("BOOKMARK", "", "9")]
    assert stream.closed
    assert script.requests[0].path == "/api/v1/namespaces/ns/configmaps"
    assert script.requests[0].query == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "3",
        "labelSelector": "a=b",
        "timeoutSeconds": "300",
    }


async def test_whoever_stops_listening_ends_the_watch() -> None:
    stream = Documents([document("ADDED", config_map("a", 4)), document("ADDED", config_map("b", 5))])
    async with aclosing(client_of(Script(stream)).watch(CONFIG_MAPS, resource_version="3")) as events:
        async for event in events:
            assert event.object.name == "a"
            break
    assert stream.closed


async def test_old_version_expires_in_response_and_stream() -> None:
    with pytest.raises(Expired):
        await anext(client_of(Script(failure(Expired.of("too old")))).watch(CONFIG_MAPS, resource_version="1"))
    later = Documents([document("ADDED", config_map("a", 4)), document("ERROR", Expired.of("too old").status)])
    events = client_of(Script(later)).watch(CONFIG_MAPS, resource_version="1")
    assert (await anext(events)).object.name == "a"
    with pytest.raises(Expired, match="too old"):
        await anext(events)
    assert later.closed


async def test_a_refused_watch_is_an_error_of_its_class() -> None:
    with pytest.raises(Forbidden):
        await anext(client_of(Script(failure(Forbidden.of("no")))).watch(CONFIG_MAPS, resource_version="1"))


@given(
    st.sampled_from(["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]),
    st.dictionaries(st.text(), st.text() | st.integers(-(2**53), 2**53) | st.lists(st.text())),
    st.sampled_from(["", "\n", " \r\n"]),
    st.booleans(),
    st.booleans(),
)
def test_any_layout_of_an_event_gives_the_same_object(
    type_: str, data: dict[str, Any], end: str, type_first: bool, extra: bool
) -> None:
    object_ = config_map("a", 4) | {"data": data}
    fields: dict[str, object] = {"type": type_, "object": object_} if type_first else {"object": object_, "type": type_}
    if extra:
        fields["other"] = {}
    event = decode_event(msgspec.json.encode(fields) + end.encode())
    assert (event.type, event.object.key, event.object.tree) == (type_, ("ns", "a"), object_)


@pytest.mark.parametrize(
    "broken", [b"<html>", b"{}", b'{"type":"ADDED","object":', b'{"type":"ADDED","object":{"a":}}', b""]
)
def test_an_invalid_event_is_reported_as_such(broken: bytes) -> None:
    with pytest.raises(NotKubernetes):
        decode_event(broken)


def test_error_without_code_is_servers_failure() -> None:
    with pytest.raises(ApiError, match="hm"):
        decode_event(document("ERROR", {"kind": "Status", "message": "hm"}))
