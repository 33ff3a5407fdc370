"""An embedded API server, its clients, and what is sent to it."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

from espalier.api.resource import Resource
from espalier.apiserver.access.webhooks import CallWebhook
from espalier.apiserver.server import DEFAULT_VERSION, Server
from espalier.apiserver.storage.store import MemoryStore, Store
from espalier.kube.client import Client
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.kube.transports.retry import Retry
from espalier.kube.transports.wire import ADMIN, Request, Response, User

THING = Resource("example.com", "v1", "things", "Thing")


def new_server(
    store: Store | None = None, call_webhook: CallWebhook | None = None, version: str = DEFAULT_VERSION
) -> Server:
    return Server(
        store or MemoryStore(),
        now=lambda: datetime.now(UTC),
        random=random.Random(1),
        call_webhook=call_webhook,
        version=version,
    )


def client_of(server: Server, user: User = ADMIN, agent: str = "tester") -> Client:
    return Client(InProcessTransport(server, user), user_agent=agent, retry=Retry(attempts=1))


def body(name: str, data: dict[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default", **metadata}, "data": data or {}}


def definition(kind: str = "Thing", plural: str = "things", schema: dict[str, Any] | None = None) -> dict[str, Any]:
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {
            "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, **(schema or {})}
        },
    }
    return {
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [version],
        },
    }


def condition(tree: dict[str, Any], type_: str) -> dict[str, Any]:
    return next(each for each in tree["status"]["conditions"] if each["type"] == type_)


async def raw(server: Server, method: str, path: str, media: str, content: bytes, user: User = ADMIN) -> Response:
    return await server.serve(Request(method, path, {"fieldManager": "me"}, {"content-type": media}, content), user)
