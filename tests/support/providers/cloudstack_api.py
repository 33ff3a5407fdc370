"""A CloudStack for tests: the part of its API that is asked, over HTTPS; signatures count; with faults."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from aiohttp import web

from espalier.api.meta import Tree
from espalier.clusters.report.checks.questions import Credentials
from espalier.providers.cloudstack.checks.questions import Server
from tests.support.providers.prism import certificate
from tests.support.servers.web_server import tls, web_server

NAME = "cloudstack.example.com"
"""The name in specs; `resolve` knows where it is."""
KEYS = Credentials("key-of-maker", "harbour-canary")
ZONE, NETWORK, DOMAIN = "z1", "n1", "d1"


def inventory() -> dict[str, list[Tree]]:
    """The objects that the example needs, and more, by command."""
    return {
        "listZones": [{"id": ZONE, "name": "zone-1"}, {"id": "z2", "name": "zone-2"}],
        "listDomains": [
            {"id": DOMAIN, "name": "ROOT", "path": "ROOT"},
            {"id": "d2", "name": "boats", "path": "ROOT/boats"},
            {"id": "d3", "name": "boats", "path": "ROOT/old/boats"},
        ],
        "listAccounts": [{"id": "a1", "name": "admin", "domainid": DOMAIN}],
        "listNetworks": [
            {"id": NETWORK, "name": "network-1", "zoneid": ZONE},
            {"id": "n2", "name": "network-10", "zoneid": ZONE},
            {"id": "n3", "name": "network-2", "zoneid": "z2"},
        ],
        "listServiceOfferings": [{"id": "o1", "name": "4 CPUs, 8 GB"}],
        "listDiskOfferings": [{"id": "k1", "name": "Small", "iscustomized": True}, {"id": "k2", "name": "Fixed"}],
        "listTemplates": [{"id": "t1", "name": "rhel8-kube-v1-35", "zoneid": ZONE, "isready": True}],
        "listAffinityGroups": [{"id": "group-a", "name": "a"}],
        "listVirtualMachines": [
            {"id": "v1", "name": "boat-1", "networkid": NETWORK, "nic": [{"ipaddress": "192.0.2.44"}]}
        ],
        "listPublicIpAddresses": [
            {"id": "p1", "ipaddress": "192.0.2.55", "associatednetworkid": "n2"},
            {"id": "p2", "ipaddress": "192.0.2.66", "associatednetworkid": NETWORK},
        ],
        "listLoadBalancerRules": [{"id": "l1", "name": "pier", "publicipid": "p2", "publicport": "6443"}],
    }


_FILTERS = ("id", "name", "zoneid", "networkid", "publicipid", "ipaddress")
"""Parameters by which items are chosen that have such a field."""


@dataclass
class CloudStack:
    """A running CloudStack."""

    port: int
    scheme: str = "https"
    items: dict[str, list[Tree]] = field(default_factory=inventory)
    asked: list[dict[str, str]] = field(default_factory=list)
    """Parameters of requests."""
    urls: set[str] = field(default_factory=set)
    fault: Callable[[Mapping[str, str]], Awaitable[web.StreamResponse | None]] | None = None
    """Answers instead of it, unless it returns None."""

    @property
    def server(self) -> Server:
        """As a spec names it."""
        return Server(f"{NAME}:{self.port}", url=f"{self.scheme}://{NAME}:{self.port}/client/api")

    @property
    def commands(self) -> list[str]:
        """Of requests."""
        return [item["command"] for item in self.asked]

    def resolve(self, _host: str, port: int) -> list[tuple[str, int]]:
        """Its address, whatever is asked."""
        return [("127.0.0.1", port)]

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Any request."""
        parameters = {name: str(value) for name, value in (await request.post()).items()}
        self.urls.add(str(request.rel_url))
        self.asked.append(parameters)
        command = parameters["command"]
        if self.fault is not None and (answer := await self.fault(parameters)) is not None:
            return answer
        if not _is_signed(parameters):
            return error(401, "unable to verify user credentials and/or request signature", command)
        results = [item for item in self.items[command] if _fits(item, parameters)]
        if "id" in parameters and not results:
            return error(431, "Invalid parameter id: entity does not exist", command)
        page, size = int(parameters["page"]), int(parameters["pagesize"])
        shown = results[(page - 1) * size : page * size]
        key = command.removeprefix("list").lower()
        content: Tree = {"count": len(results), key: shown} if results else {}
        return web.json_response({f"{command.lower()}response": content})


def error(code: int, text: str, command: str = "listZones") -> web.Response:
    """As CloudStack refuses."""
    content = {"uuidList": [], "errorcode": code, "cserrorcode": 4350, "errortext": text}
    return web.json_response({f"{command.lower()}response": content}, status=code)


def _fits(item: Mapping[str, Any], parameters: Mapping[str, str]) -> bool:
    exact = all(item.get(name, value) == value for name, value in parameters.items() if name in _FILTERS)
    return exact and parameters.get("keyword", "") in item.get("name", "")


def _is_signed(parameters: Mapping[str, str]) -> bool:
    """True if somebody with the keys signed a request that has not expired."""
    signed = {name: value for name, value in parameters.items() if name != "signature"}
    pairs = sorted((name.lower(), quote(value, safe="*").lower()) for name, value in signed.items())
    text = "&".join(f"{name}={value}" for name, value in pairs)
    digest = hmac.new(KEYS.password.encode(), text.encode(), hashlib.sha1).digest()
    expires = datetime.strptime(parameters["expires"], "%Y-%m-%dT%H:%M:%S%z")
    return (
        parameters["apiKey"] == KEYS.username
        and parameters["signature"] == base64.b64encode(digest).decode()
        and parameters["signatureVersion"] == "3"
        and expires > datetime.now(UTC)
    )


@asynccontextmanager
async def running(
    *, name: str = NAME, expired: bool = False, plain: bool = False
) -> AsyncIterator[tuple[CloudStack, str]]:
    """Run one, over HTTP if `plain`; with the file of its certificate, which signs itself."""
    made, key = certificate(name=name, expired=expired)
    result = CloudStack(0, scheme="http" if plain else "https")
    with tempfile.NamedTemporaryFile() as chain:
        Path(chain.name).write_bytes(made)
        async with web_server(result.answer, None if plain else tls(made, key)) as result.port:
            yield result, chain.name


async def never(_parameters: Mapping[str, str]) -> None:
    """A fault: no answer."""
    await asyncio.Event().wait()
