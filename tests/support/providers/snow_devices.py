"""A Snow device for tests: the parts of its two APIs that are asked, over HTTPS, with faults. It verifies signatures
by what AWS writes about them, without the library by which they are made.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs

from aiohttp import web

from espalier.clusters.report.checks.questions import Credentials, Server
from espalier.providers.snow.checks.devices import Ports
from tests.support.providers.prism import certificate, never
from tests.support.servers.web_server import tls, web_server

ADDRESS = "127.0.0.1"
ACCESS_KEY, SECRET_KEY = "AKIAMAKER", "canary-of-who-makes-machines/+="

__all__ = ["Device", "never", "snow_device"]


@dataclass
class Device:
    """A running device."""

    ports: Ports
    authority: str
    """Its certificate, which signs itself."""
    state: str = "UNLOCKED"
    software: str = "108"
    images: dict[str, str] = field(default_factory=lambda: {"s.ami-1": "available", "s.ami-2": "pending"})
    """The state of each."""
    instance_types: dict[str, int] = field(default_factory=lambda: {"sbe-c.large": 2, "sbe-c.small": 1})
    """The number of virtual CPUs of each."""
    key_pairs: list[str] = field(default_factory=lambda: ["operators"])
    page: int = 1000
    """Images in one answer."""
    asked: list[str] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    """Whatever was sent."""
    fault: Callable[[str, web.Request], Awaitable[web.StreamResponse | None]] | None = None
    """Answers instead of it, unless it returns None."""

    @property
    def server(self) -> Server:
        """As a spec names it."""
        return Server(ADDRESS)

    @property
    def account(self) -> Credentials:
        """As a Secret has it."""
        return Credentials(ACCESS_KEY, SECRET_KEY, self.authority)

    def resolve(self, host: str, port: int) -> list[tuple[str, int]]:
        """Any address may be asked, also this machine's."""
        return [(host, port)]

    async def of_device(self, request: web.Request) -> web.StreamResponse:
        """A request to the API of the device."""
        action = request.headers["X-Amz-Target"].removeprefix("SnowballDevice_20171127.")
        if (answer := await self._before(action, request, "snowballdevice")) is not None:
            return answer
        if not is_signed(request, await request.read(), "snowballdevice"):
            return web.json_response({"__type": "a#InvalidSignatureException", "message": "no"}, status=400)
        if action == "DescribeDevice":
            return web.json_response({"DeviceId": "JID-1", "UnlockStatus": {"State": self.state}, "DeviceType": "V3"})
        assert action == "DescribeDeviceSoftware"
        return web.json_response({"InstalledVersion": self.software, "InstallState": "NA"})

    async def of_ec2(self, request: web.Request) -> web.StreamResponse:
        """A request to the EC2-compatible API."""
        asked = {name: values[0] for name, values in parse_qs((await request.read()).decode()).items()}
        action = asked["Action"]
        if (answer := await self._before(action, request, "ec2")) is not None:
            return answer
        if not is_signed(request, await request.read(), "ec2"):
            return failed(401, "AuthFailure")
        if action == "DescribeImages":
            first = int(asked.get("NextToken", "0"))
            more = first + self.page
            items = [
                f"<imageId>{name}</imageId><imageState>{state}</imageState>"
                for name, state in [*self.images.items()][first:more]
            ]
            return listed(action, "imagesSet", items, str(more) if more < len(self.images) else "")
        if action == "DescribeInstanceTypes":
            types = [
                f"<instanceType>{name}</instanceType><vCpuInfo><defaultVCpus>{number}</defaultVCpus></vCpuInfo>"
                for name, number in self.instance_types.items()
            ]
            return listed(action, "instanceTypeSet", types)
        assert action == "DescribeKeyPairs"
        return listed(action, "keySet", [f"<keyName>{pair}</keyName>" for pair in self.key_pairs])

    async def _before(self, action: str, request: web.Request, service: str) -> web.StreamResponse | None:
        assert (request.method, request.path) == ("POST", "/")
        self.asked.append(f"{service} {action}")
        self.seen.append(f"{request.headers} {await request.text()}")
        return await self.fault(action, request) if self.fault is not None else None


def listed(action: str, member: str, items: Iterable[str], token: str = "") -> web.Response:
    """A list, as EC2 answers it."""
    content = "".join(f"<item>{item}</item>" for item in items)
    more = f"<nextToken>{token}</nextToken>" if token else ""
    name, space = f"{action}Response", "http://ec2.amazonaws.com/doc/2016-11-15/"
    text = f'<{name} xmlns="{space}"><requestId>1</requestId><{member}>{content}</{member}>{more}</{name}>'
    return web.Response(text=text, content_type="text/xml")


def failed(status: int, code: str, message: str = "no") -> web.Response:
    """An error, as EC2 answers it."""
    error = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>"
    return web.Response(text=f"<Response><Errors>{error}</Errors><RequestID>1</RequestID></Response>", status=status)


def is_signed(request: web.Request, body: bytes, service: str) -> bool:
    """True if the device knows the key, and the signature is right: version 4, as AWS documents it."""
    algorithm, _, rest = request.headers.get("Authorization", "").partition(" ")
    if algorithm != "AWS4-HMAC-SHA256":
        return False
    parts: Mapping[str, str] = dict(word.strip().split("=", 1) for word in rest.split(","))
    key, day, region, of, end = parts["Credential"].split("/")
    if (key, region, of, end) != (ACCESS_KEY, "snow", service, "aws4_request"):
        return False
    names = parts["SignedHeaders"].split(";")
    if not {"host", "x-amz-date"} <= set(names):
        return False
    headers = "".join(f"{name}:{' '.join(request.headers[name].split())}\n" for name in names)
    canonical = f"POST\n/\n\n{headers}\n{';'.join(names)}\n{hashlib.sha256(body).hexdigest()}"
    scope = f"{day}/{region}/{of}/{end}"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    secret = f"AWS4{SECRET_KEY}".encode()
    for item in (day, region, of, end):
        secret = hmac.digest(secret, item.encode(), "sha256")
    text = f"{algorithm}\n{request.headers['X-Amz-Date']}\n{scope}\n{digest}"
    return hmac.compare_digest(hmac.digest(secret, text.encode(), "sha256").hex(), parts["Signature"])


@asynccontextmanager
async def snow_device(*, name: str = ADDRESS, expired: bool = False) -> AsyncIterator[Device]:
    """Run one. Its certificate is no authority, as a device makes it for itself."""
    made, key = certificate(name=name, expired=expired, authority=False)
    result = Device(Ports(), made.decode())
    context = tls(made, key)
    async with web_server(result.of_ec2, context) as ec2, web_server(result.of_device, context) as of_device:
        result.ports = Ports(ec2, of_device)
        yield result
