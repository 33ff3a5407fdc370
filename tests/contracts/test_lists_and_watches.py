"""Lists and watches, on the embedded API server as on kube-apiserver."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import msgspec
import pytest

from espalier.api.core import (
    CONFIG_MAP,
    NAMESPACE,
    SECRET,
)
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import (
    BadRequest,
    Expired,
)
from espalier.kube.transports.http import HttpTransport
from espalier.kube.transports.wire import Request, Response
from tests.support.environments.control_plane import PATIENCE
from tests.support.servers.widgets import WIDGET, Fields, config_map


async def test_selectors_select(client: Client, namespace: str) -> None:
    for name, labels in (("a", {"tier": "web", "n": "1"}), ("b", {"tier": "db"}), ("c", {})):
        await client.create(CONFIG_MAP, config_map(namespace, name, labels=labels))

    async def names(labels: str = "", fields: str = "") -> list[str]:
        own = f"{fields},metadata.name!=kube-root-ca.crt" if fields else "metadata.name!=kube-root-ca.crt"
        return [each.name for each in (await client.list(CONFIG_MAP, namespace, labels=labels, fields=own)).items]

    assert await names() == ["a", "b", "c"]
    assert await names("tier=web") == await names("tier==web") == await names("tier,tier!=db") == ["a"]
    assert await names("tier in (web, db)") == ["a", "b"]
    assert await names("tier notin (web)") == ["b", "c"]
    assert await names("!tier") == ["c"]
    assert await names("n>0") == ["a"]
    assert await names(fields="metadata.name=b") == ["b"]
    assert await names(fields="metadata.name!=b,metadata.namespace=" + namespace) == ["a", "c"]
    with pytest.raises(BadRequest, match=r'^"data.x" is not a known field selector: only "metadata.name", "metadata'):
        await names(fields="data.x=1")
    with pytest.raises(BadRequest):
        await names("a b")
    secret = {"metadata": {"name": "s", "namespace": namespace}, "type": "example.com/own"}
    await client.create(SECRET, secret)
    assert [each.name for each in (await client.list(SECRET, namespace, fields="type=example.com/own")).items] == ["s"]


async def test_pages_show_one_moment(client: Client, namespace: str) -> None:
    for name in "abcdef":
        await client.create(CONFIG_MAP, config_map(namespace, name))
    pages = []
    async for page in client.pages(CONFIG_MAP, namespace, limit=2, fields="metadata.name!=kube-root-ca.crt"):
        pages.append(page)
        if len(pages) == 1:
            await client.create(CONFIG_MAP, config_map(namespace, "bb"))
            await client.delete(CONFIG_MAP, "d", namespace)
    assert [each.name for page in pages for each in page.items] == list("abcdef")
    assert len({page.resource_version for page in pages}) == 1


async def test_a_watch_goes_on_where_the_list_ended(client: Client, namespace: str) -> None:
    await client.create(CONFIG_MAP, config_map(namespace, "before"))
    start = (await client.list(CONFIG_MAP, namespace)).resource_version
    await client.create(CONFIG_MAP, config_map(namespace, "a"))
    await client.patch(CONFIG_MAP, "a", namespace, patch={"data": {"x": "1"}}, type=PatchType.MERGE)
    await client.delete(CONFIG_MAP, "a", namespace)
    seen = []
    async with (
        asyncio.timeout(PATIENCE),
        aclosing(client.watch(CONFIG_MAP, namespace, resource_version=start)) as events,
    ):
        async for event in events:
            if event.object.name == "a":
                seen.append((event.type, event.object.resource_version))
            if event.type == "DELETED":
                break
    assert [kind for kind, _ in seen] == ["ADDED", "MODIFIED", "DELETED"]
    assert len({version for _, version in seen}) == 3


async def test_objects_enter_and_leave_a_selection(client: Client, namespace: str) -> None:
    start = (await client.list(CONFIG_MAP, namespace)).resource_version
    await client.create(CONFIG_MAP, config_map(namespace, "a"))
    for labels in ({"on": "yes"}, {"on": "yes", "more": "1"}, {"on": "no", "more": "1"}):
        await client.patch(CONFIG_MAP, "a", namespace, patch={"metadata": {"labels": labels}}, type=PatchType.MERGE)
    await client.create(CONFIG_MAP, config_map(namespace, "end", labels={"on": "yes"}))
    seen = []
    async with (
        asyncio.timeout(PATIENCE),
        aclosing(client.watch(CONFIG_MAP, namespace, resource_version=start, labels="on=yes")) as events,
    ):
        async for event in events:
            seen.append((event.type, event.object.name))
            if event.object.name == "end":
                break
    assert seen == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a"), ("ADDED", "end")]


@pytest.mark.often("in_memory", "real")
async def test_a_watch_ends_with_its_time(client: Client, namespace: str) -> None:
    start = (await client.list(CONFIG_MAP, namespace)).resource_version
    async with asyncio.timeout(PATIENCE):
        types = [
            event.type async for event in client.watch(CONFIG_MAP, namespace, resource_version=start, timeout_seconds=1)
        ]
    assert set(types) <= {"ADDED", "BOOKMARK"}  # a real control plane puts an object of its own into each namespace


async def test_a_list_can_be_watched_from_the_beginning(client: Client, namespace: str) -> None:
    await client.create(SECRET, {"metadata": {"name": "a", "namespace": namespace}})
    query = {
        "watch": "true",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "10",
    }
    stream = await client.transport.stream(Request("GET", SECRET.path(namespace), query))
    assert not isinstance(stream, Response)
    seen: list[Fields] = []
    async with asyncio.timeout(PATIENCE):
        async for document in stream:
            seen.append(msgspec.json.decode(document))
            if seen[-1]["type"] == "BOOKMARK":
                break
    await stream.close()
    assert [(each["type"], each["object"]["metadata"].get("name")) for each in seen] == [
        ("ADDED", "a"),
        ("BOOKMARK", None),
    ]
    assert seen[-1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_the_future_can_not_be_listed(client: Client, namespace: str) -> None:
    response = await client.raw(Request("GET", CONFIG_MAP.path(namespace), {"resourceVersion": "99999999"}))
    assert response.status == 504
    assert "Too large resource version: 99999999, current: " in response.body.decode()


@pytest.mark.often("in_memory", "real")
async def test_a_moment_long_gone_is_expired(client: Client, widgets: str) -> None:
    if isinstance(client.transport, HttpTransport):
        version = "1"
    else:
        for index in range(5200):  # more than the history holds
            await client.patch(
                NAMESPACE, widgets, patch={"metadata": {"labels": {"n": str(index)}}}, type=PatchType.MERGE
            )
        version = "2"
    resource, namespace = (WIDGET, widgets) if version == "1" else (NAMESPACE, None)
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(Expired, match=r"^too old resource version: "):
            async for _ in client.watch(resource, namespace, resource_version=version):
                pass
