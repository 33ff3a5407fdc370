"""A way to an API server on which every status of a Cluster is judged as kstatus would."""

from __future__ import annotations

import json
from typing import Any

from espalier.kube.transports.wire import Request, Response, Transport
from tests.support.objects import kstatus


class JudgedStatuses:
    """Notes in `found` what a written status of a Cluster would mislead readers about."""

    def __init__(self, transport: Transport, notes: set[str]) -> None:
        self._transport = transport
        self._notes = notes

    async def request(self, request: Request) -> Response:
        response = await self._transport.request(request)
        if request.method == "PATCH" and _is_a_status(request.path) and response.status == 200:
            tree = json.loads(response.body)
            self._notes.update(f"{fault}: {json.dumps(tree['status'])}" for fault in kstatus.faults(tree))
        return response

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def _is_a_status(path: str) -> bool:
    return "/anywhere.eks.amazonaws.com/" in path and "/clusters/" in path and path.endswith("/status")
