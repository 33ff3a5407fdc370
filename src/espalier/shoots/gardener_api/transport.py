"""A transport to a garden, whichever API server it has: callers see that of our own gardens.

A garden of Gardener has ShootStates in another version and form, and gives a Shoot its seed by the subresource
`binding` alone.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from http import HTTPStatus
from typing import Any

from msgspec import Raw
from msgspec.structs import replace

from espalier.api.gardener.garden.shoot import GROUP, Shoot
from espalier.api.gardener.garden.shoot import VERSION as SHOOT_VERSION
from espalier.api.gardener.garden.shoot_state import VERSION, ShootState
from espalier.api.meta import Observed
from espalier.api.trees import json_trees
from espalier.kube.objects import Object, encode_json
from espalier.kube.transports.wire import Request, Response, Stream, Transport
from espalier.shoots.gardener_api.shoot_states import from_gardener, to_gardener

GROUP_VERSION = f"/apis/{GROUP}/{SHOOT_VERSION}"
BINDING = "binding"
_OURS = f"/apis/{GROUP}/{VERSION}/"
_MERGE_PATCH = "application/merge-patch+json"
_parts: Callable[[bytes], dict[str, Raw]] = json_trees.decoder(dict[str, Raw])
_items: Callable[[bytes], list[Raw]] = json_trees.decoder(list[Raw])


class _Name(Observed, frozen=True):
    name: str = ""


class _Listed(Observed, frozen=True):
    resources: tuple[_Name, ...] = ()


class _Placed(Observed, frozen=True):
    seed_name: str = ""


class _Bound(Observed, frozen=True):
    spec: _Placed = _Placed()


class GardenTransport:
    """Carries requests to a garden. Which API server it has is asked once, before the first request where it matters.

    While Gardener's API server does not answer, requests get what the API server in front of it says.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._is_gardener: bool | None = None

    async def request(self, request: Request) -> Response:
        """See `Transport`."""
        if _of_states(request):
            refused = await self._ask()
            if refused is not None or not self._is_gardener:
                return refused or await self._transport.request(request)
            return _from_gardener(await self._transport.request(_to_gardener(request)))
        if (patch := _seed_patch(request)) is not None:
            refused = await self._ask()
            if refused is not None or not self._is_gardener:
                return refused or await self._transport.request(request)
            return await self._bind(request, patch)
        return await self._transport.request(request)

    async def stream(self, request: Request) -> Stream | Response:
        """See `Transport`."""
        if not _of_states(request):
            return await self._transport.stream(request)
        refused = await self._ask()
        if refused is not None or not self._is_gardener:
            return refused or await self._transport.stream(request)
        started = await self._transport.stream(_to_gardener(request))
        return started if isinstance(started, Response) else _States(started)

    async def close(self) -> None:
        """See `Transport`."""
        await self._transport.close()

    async def _ask(self) -> Response | None:
        """Find out which API server it is. The answer of one that does not say."""
        if self._is_gardener is not None:
            return None
        answer = await self._transport.request(Request("GET", GROUP_VERSION))
        if answer.status == HTTPStatus.NOT_FOUND:  # its kinds are not defined yet
            return None
        if answer.status != HTTPStatus.OK:
            return answer
        listed = json_trees.decode(answer.body, _Listed).resources
        self._is_gardener = f"{Shoot.resource.plural}/{BINDING}" in {entry.name for entry in listed}
        return None

    async def _bind(self, request: Request, patch: dict[str, Any]) -> Response:
        """Patch a Shoot in up to three requests: fields of its spec, its seed by the subresource, and metadata.

        Annotations come last: those of a move are dropped where no move is under way.
        """
        metadata, spec = dict(patch.get("metadata") or {}), dict(patch["spec"])
        preconditions = {name: metadata.pop(name) for name in ("uid", "resourceVersion") if name in metadata}
        seed = {"seedName": spec.pop("seedName")}
        steps: list[tuple[str, dict[str, Any]]] = [(f"{request.path}/{BINDING}", {"spec": seed})]
        if spec:
            steps.insert(0, (request.path, {"spec": spec}))
        if metadata:
            steps.append((request.path, {"metadata": metadata}))
        answer = Response(HTTPStatus.OK)
        for path, body in steps:
            given = {**preconditions, **body.get("metadata", {})}
            sent = encode_json({**body, "metadata": given} if given else body)
            answer = await self._transport.request(replace(request, path=path, body=sent))
            if answer.status >= HTTPStatus.BAD_REQUEST:
                # Gardener refuses to bind a Shoot to the seed that it has: the patch may be sent again.
                bound = await self._transport.request(Request("GET", request.path)) if path != request.path else answer
                if not _has_seed(bound, seed["seedName"], preconditions.get("uid")):
                    return answer
                answer = bound
            preconditions.pop("resourceVersion", None)  # it has just changed
        return answer


class _States:
    """A watch of ShootStates in our form."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for event in self._stream:
            parts = _parts(event)
            yield encode_json({**parts, "object": Raw(_object(bytes(parts["object"])))}) if "object" in parts else event

    async def close(self) -> None:
        """See `Stream`."""
        await self._stream.close()


def _has_seed(answer: Response, seed: str, uid: str | None) -> bool:
    """True if the answer is the Shoot, not a later one of its name, and it has the seed."""
    if answer.status != HTTPStatus.OK:
        return False
    live = Object(answer.body)
    return live.decode(_Bound).spec.seed_name == seed and uid in (None, live.metadata.uid)


def _of_states(request: Request) -> bool:
    return request.path.startswith(_OURS) and ShootState.resource.plural in request.path.split("/")


def _seed_patch(request: Request) -> dict[str, Any] | None:
    """The body of a merge patch that sets the seed of a Shoot; None for another request."""
    parts = request.path.removeprefix(GROUP_VERSION).strip("/").split("/")
    if request.method != "PATCH" or request.headers.get("content-type") != _MERGE_PATCH:
        return None
    if not request.path.startswith(GROUP_VERSION) or len(parts) != 4 or parts[2] != Shoot.resource.plural:
        return None
    patch = json_trees.decode(request.body)
    spec = patch.get("spec") if isinstance(patch, dict) else None
    return patch if isinstance(spec, dict) and spec.get("seedName") else None


def _to_gardener(request: Request) -> Request:
    path = f"{GROUP_VERSION}/{request.path.removeprefix(_OURS)}"
    is_object = bool(request.body) and request.method in ("POST", "PUT", "PATCH")
    return replace(request, path=path, body=to_gardener(request.body) if is_object else request.body)


def _from_gardener(response: Response) -> Response:
    if response.status >= HTTPStatus.BAD_REQUEST or not response.body:
        return response
    return replace(response, body=_object(response.body))


def _object(body: bytes) -> bytes:
    """An object or a list in our form; anything else as it is."""
    parts = _parts(body)
    kind = json_trees.decode(bytes(parts.get("kind", Raw(b'""'))), str)
    if kind == ShootState.resource.kind:
        return from_gardener(body)
    if kind == f"{ShootState.resource.kind}List":
        version = Raw(encode_json(ShootState.resource.api_version))
        items = [Raw(from_gardener(bytes(item))) for item in _items(bytes(parts.get("items", Raw(b"[]"))))]
        return encode_json({**parts, "apiVersion": version, "items": items})
    return body
