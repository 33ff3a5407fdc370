"""Webhooks that a server asks about a write."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from espalier.api.core import (
    CONFIG_MAP,
    MUTATING_WEBHOOK_CONFIGURATION,
    VALIDATING_WEBHOOK_CONFIGURATION,
)
from espalier.api.resource import Resource
from espalier.apiserver.access.webhooks import CallFailed, WebhookCall
from espalier.apiserver.server import Server
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import ApiError, Conflict, Forbidden, Invalid, NotFound
from tests.support.servers.embedded_server import body, client_of, new_server


def webhook(name: str, **more: Any) -> dict[str, Any]:
    rule = {"operations": ["CREATE", "UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
    return {
        "name": name,
        "clientConfig": {"url": "https://webhooks.example.com/x", "caBundle": ""},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **more,
    }


Answering = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


async def admitting(answer: Answering, kind: Resource = MUTATING_WEBHOOK_CONFIGURATION) -> tuple[Server, Client]:
    """A server that asks `answer` about ConfigMaps."""

    async def call(asked: WebhookCall) -> bytes:
        request = msgspec.json.decode(asked.body)["request"]
        response = {"uid": request["uid"], "allowed": True, **await answer(request)}
        return msgspec.json.encode(
            {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        )

    server = new_server(call_webhook=call)
    await server.start()
    client = client_of(server)
    await client.create(kind, {"metadata": {"name": "w"}, "webhooks": [webhook("w.example.com")]})
    return server, client


def patching(*operations: dict[str, Any]) -> dict[str, Any]:
    return {"patchType": "JSONPatch", "patch": base64.b64encode(msgspec.json.encode(operations)).decode()}


async def test_fields_added_by_a_webhook_belong_to_nobody(server: Server) -> None:
    async def answer(request: dict[str, Any]) -> dict[str, Any]:
        return patching({"op": "add", "path": "/data/added", "value": "yes"})

    server, client = await admitting(answer)
    applied = await client.apply(CONFIG_MAP, body("a", {"own": "1"}), field_manager="me")
    assert applied.tree["data"] == {"own": "1", "added": "yes"}
    entries = {entry["operation"]: entry["fieldsV1"] for entry in applied.tree["metadata"]["managedFields"]}
    assert entries == {"Apply": {"f:data": {"f:own": {}}}}
    again = await client.apply(CONFIG_MAP, body("a", {"own": "1"}), field_manager="me")
    assert again.resource_version == applied.resource_version, "the same once more is no write"
    await server.close()


async def test_a_denial_is_passed_on() -> None:
    async def answer(request: dict[str, Any]) -> dict[str, Any]:
        return {"allowed": False, "status": {"message": "not today", "code": 403}}

    server, client = await admitting(answer, VALIDATING_WEBHOOK_CONFIGURATION)
    with pytest.raises(Forbidden, match=r'^admission webhook "w.example.com" denied the request: not today$'):
        await client.create(CONFIG_MAP, body("a"))
    with pytest.raises(NotFound):
        await client.get(CONFIG_MAP, "a", "default")
    await server.close()


async def test_writes_during_a_webhooks_call_are_not_lost() -> None:
    thinking, think = asyncio.Event(), asyncio.Event()

    async def answer(request: dict[str, Any]) -> dict[str, Any]:
        if request["object"]["data"].get("slow"):
            thinking.set()
            await think.wait()
        return {}

    server, client = await admitting(answer, VALIDATING_WEBHOOK_CONFIGURATION)
    created = await client.create(CONFIG_MAP, body("a"))

    async def meanwhile(slow: Awaitable[Any], key: str) -> Any:
        thinking.clear()
        think.clear()
        running = asyncio.ensure_future(slow)
        await thinking.wait()
        await client.patch(CONFIG_MAP, "a", "default", patch={"data": {key: "1", "slow": None}}, type=PatchType.MERGE)
        think.set()
        return await running

    patch = {"data": {"slow": "1"}}
    patched = await meanwhile(client.patch(CONFIG_MAP, "a", "default", patch=patch, type=PatchType.MERGE), "first")
    assert patched.tree["data"] == {"first": "1", "slow": "1"}, "a patch is made anew on what is there now"
    replacement = {**patched.tree, "data": {"slow": "2"}}
    with pytest.raises(Conflict):
        await meanwhile(client.replace(CONFIG_MAP, replacement), "second")
    assert (await client.get(CONFIG_MAP, "a", "default")).tree["data"] == {"first": "1", "second": "1"}
    assert created.metadata.uid == patched.metadata.uid
    await server.close()


async def test_failing_webhook_fails_write_unless_ignored() -> None:
    async def call(asked: WebhookCall) -> bytes:
        raise CallFailed("failed to call webhook: nobody is there")

    server = new_server(call_webhook=call)
    await server.start()
    client = client_of(server)
    hooks = [webhook("w.example.com")]
    created = await client.create(VALIDATING_WEBHOOK_CONFIGURATION, {"metadata": {"name": "w"}, "webhooks": hooks})
    with pytest.raises(ApiError, match=r'^Internal error occurred: failed calling webhook "w.example.com": failed to'):
        await client.create(CONFIG_MAP, body("a"))
    tree = created.tree
    tree["webhooks"][0]["failurePolicy"] = "Ignore"
    await client.replace(VALIDATING_WEBHOOK_CONFIGURATION, tree)
    await client.create(CONFIG_MAP, body("a"))
    await server.close()


async def test_a_wrong_webhook_configuration_is_refused(client: Client) -> None:
    hooks = [webhook("w.example.com", matchConditions=[{"name": "n", "expression": "true"}])]
    with pytest.raises(Invalid, match=r"does not evaluate matchConditions"):
        await client.create(VALIDATING_WEBHOOK_CONFIGURATION, {"metadata": {"name": "w"}, "webhooks": hooks})
