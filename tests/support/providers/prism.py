"""A Prism Central for tests: the part of its REST API that is asked, over HTTPS, with faults."""

from __future__ import annotations

import asyncio
import base64
import ipaddress
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from espalier.api.meta import Tree
from espalier.clusters.report.checks.questions import Credentials
from espalier.providers.nutanix.checks.questions import Server
from tests.support.servers.web_server import tls, web_server

NAME = "prism.example.com"
"""The name in specs; `resolve` knows where it is."""
ACCOUNT = Credentials("maker", "slate-canary")
EAST, WEST = "0005a0f3-8f43-a0f2-02b7-3cecef193701", "0005a0f3-8f43-a0f2-02b7-3cecef193702"
API = "/api/nutanix/v3"


def entity(name: str, uuid: str, *, cluster: str = "", **resources: Any) -> Tree:
    """As lists of Prism Central have it."""
    status: Tree = {"name": name, "state": "COMPLETE", "resources": resources}
    if cluster:
        status["cluster_reference"] = {"kind": "cluster", "uuid": cluster}
    return {"status": status, "spec": {"name": name}, "metadata": {"uuid": uuid}}


def inventory() -> dict[str, list[Tree]]:
    """The entities that the example needs, and more."""
    gpu = {"name": "Ampere 40", "device_id": 8757, "mode": "PASSTHROUGH_GRAPHICS", "status": "UNUSED"}
    return {
        "clusters": [
            entity("cluster-1", EAST, config={"service_list": ["AOS"]}),
            entity("cluster-2", WEST, config={"service_list": ["AOS"]}),
            entity("Central", "c0", config={"service_list": ["PRISM_CENTRAL"]}),
        ],
        "subnets": [
            entity("subnet-1", "s1", cluster=EAST),
            entity("subnet-2", "s2", cluster=WEST),
            entity("vpc", "s3"),
        ],
        "images": [entity("ubuntu-1-35", "i1"), entity("ubuntu-1-36", "i2")],
        "projects": [entity("quarries", "p1")],
        "hosts": [entity("host-1", "h1", cluster=EAST, gpu_list=[gpu, gpu]), entity("host-2", "h2", cluster=WEST)],
    }


@dataclass
class Prism:
    """A running Prism Central."""

    port: int
    authority: str
    """Its certificate, which signs itself."""
    entities: dict[str, list[Tree]] = field(default_factory=inventory)
    categories: set[tuple[str, str]] = field(default_factory=lambda: {("stone", "granite"), ("a/b", "c d")})
    asked: list[str] = field(default_factory=list)
    fault: Callable[[web.Request], Awaitable[web.StreamResponse | None]] | None = None
    """Answers instead of it, unless it returns None."""

    @property
    def server(self) -> Server:
        """As a spec names it."""
        return Server(f"{NAME}:{self.port}", authorities=self.authority)

    def resolve(self, _host: str, port: int) -> list[tuple[str, int]]:
        """Its address, whatever is asked."""
        return [("127.0.0.1", port)]

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Any request."""
        self.asked.append(f"{request.method} {request.rel_url.raw_path.removeprefix(API)}")
        if self.fault is not None and (answer := await self.fault(request)) is not None:
            return answer
        if request.headers.get("Authorization") != f"Basic {base64.b64encode(':'.join(ACCOUNT[:2]).encode()).decode()}":
            return web.json_response({"state": "ERROR"}, status=401)
        parts = request.path.removeprefix(f"{API}/").split("/")
        if request.method == "POST" and parts[1:] == ["list"] and parts[0] in self.entities:
            asked = await request.json()
            assert f"{asked['kind']}s" == parts[0]
            result = self.entities[parts[0]]
            page = result[asked["offset"] : asked["offset"] + asked["length"]]
            return web.json_response({"metadata": {"total_matches": len(result)}, "entities": page})
        if request.path == f"{API}/users/me":
            return web.json_response({"status": {"name": ACCOUNT.username}})
        if parts[0] == "categories":
            raw = request.rel_url.raw_path.removeprefix(f"{API}/categories/").split("/")
            if len(raw) == 2 and tuple(map(_unquoted, raw)) in self.categories:
                return web.json_response({"value": _unquoted(raw[1])})
        return web.json_response({"state": "ERROR", "code": 404}, status=404)


def _unquoted(text: str) -> str:
    return text.replace("%2F", "/").replace("%20", " ")


def certificate(*, name: str = NAME, expired: bool = False, authority: bool = True) -> tuple[bytes, bytes]:
    """A certificate that signs itself, and its key."""
    try:
        holder: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        holder = x509.DNSName(name)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=2))
        .not_valid_after(now + timedelta(days=-1 if expired else 1))
        .add_extension(x509.SubjectAlternativeName([holder]), critical=False)
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    return made.public_bytes(pem), key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


@asynccontextmanager
async def prism_central(*, name: str = NAME, expired: bool = False) -> AsyncIterator[Prism]:
    """Run one."""
    made, key = certificate(name=name, expired=expired)
    result = Prism(0, made.decode())
    async with web_server(result.answer, tls(made, key)) as result.port:
        yield result


async def never(_request: web.Request) -> None:
    """A fault: no answer."""
    await asyncio.Event().wait()
