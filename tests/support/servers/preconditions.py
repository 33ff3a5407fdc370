"""Which object a write means: one of a name may be another by now, so writes say by uid or version which was seen."""

from __future__ import annotations

import json
from typing import Any

from espalier.api.meta import Tree
from espalier.clusters.act.secrets import kubeconfig_copies
from espalier.kube.transports.wire import Request, Response, Transport

WITHOUT = ("events", "leases", "extensionconfigs")
"""Events are about what was, Leases are for whoever comes, and the ExtensionConfig of our name is the manager's."""


class Preconditions:
    """A way to an API server on which writes are noted that hit whatever has the name when they arrive."""

    def __init__(self, transport: Transport, notes: set[str]) -> None:
        self._transport = transport
        self._notes = notes

    async def request(self, request: Request) -> Response:
        if request.method in ("DELETE", "PATCH", "PUT") and not _names_its_object(request):
            self._notes.add(f"{request.method} {request.path}")
        return await self._transport.request(request)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def _names_its_object(request: Request) -> bool:
    if any(f"/{plural}/" in request.path for plural in WITHOUT):
        return True
    body: Tree = json.loads(request.body)
    if request.method == "DELETE":
        return bool(body.get("preconditions"))
    if body.get("type") == kubeconfig_copies.TYPE:  # which an API server leaves to no other Secret
        return True
    metadata = body.get("metadata", {})
    return bool(metadata.get("uid") or metadata.get("resourceVersion"))
