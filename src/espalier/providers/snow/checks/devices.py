"""Answers from Snow devices over the network: the API of the device, and its EC2-compatible API.

Tenants name the devices, so they are not trusted: their answers are limited in size, number and time. Nothing is sent
before the certificate is verified, and then only signatures, never keys.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, NoReturn, TypeVar
from urllib.parse import urlencode

import aiohttp
import msgspec
from yarl import URL

from espalier.api.trees import json_trees
from espalier.clusters.design import addresses
from espalier.clusters.report.checks.hosts import Resolve, brief, resolved
from espalier.clusters.report.checks.limits import CONNECT, LONGEST, Received
from espalier.clusters.report.checks.questions import (
    LOGIN_REFUSED,
    NOT_VERIFIED,
    UNEXPECTED,
    UNREACHABLE,
    Credentials,
    LookUpError,
)
from espalier.kube.transports.wire import in_url
from espalier.providers.snow import references
from espalier.providers.snow.checks import signed
from espalier.providers.snow.checks.questions import Answers, Query

LARGEST = 2 * 1024 * 1024
"""The maximum bytes that a session reads."""
MOST_PAGES = 20
"""The maximum pages of a list. Devices have few images, and are not known to paginate."""

LOCKED = "DeviceLocked"
"""The reason for a locked device, as each is after a restart."""

_UNLOCKED = "UNLOCKED"
_TARGET = "SnowballDevice_20171127"
_FORBIDDEN = frozenset({"UnauthorizedOperation", "AccessDenied", "AccessDeniedException"})
"""Codes for a known account without permission."""
_REFUSED = frozenset(
    {
        "AuthFailure",
        "IncompleteSignature",
        "InvalidAccessKeyId",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)
"""Codes for invalid keys."""


T = TypeVar("T")


class Ports(NamedTuple):
    """The ports of the APIs of a device."""

    ec2: int = 8243
    device: int = 9092


PORTS = Ports()


class _UnlockStatus(msgspec.Struct, rename="pascal"):
    state: str = ""


class _Device(msgspec.Struct, rename="pascal"):
    unlock_status: _UnlockStatus


class _Software(msgspec.Struct, rename="pascal"):
    installed_version: str | None = None


class _Error(msgspec.Struct):
    type: str = msgspec.field(default="", name="__type")
    message: str = ""
    title: str = msgspec.field(default="", name="Message")


class SnowDevices:
    """Sessions with devices."""

    def __init__(self, resolve: Resolve = resolved, ports: Ports = PORTS) -> None:
        self._resolve = resolve
        self._ports = ports

    async def __call__(self, query: Query, credentials: Credentials, /) -> Answers:
        """Ask all questions in one session."""
        device = query.server.host
        if not credentials.username or not credentials.password:
            message = (
                f"field {references.OF_DEVICES} of the Secret has no profile [{device}] with aws_access_key_id and "
                "aws_secret_access_key; add it"
            )
            raise LookUpError(LOGIN_REFUSED, message, refused=True)
        try:
            async with asyncio.timeout(LONGEST), await self._session(device, credentials) as session:
                return await _Apis(session, device, self._ports, credentials).answers(query)
        except TimeoutError as error:
            limits = f"no response within {CONNECT:g} s, or more than {LONGEST:g} s in total"
            message = f"device {device} timed out: {limits}"
            raise LookUpError(UNREACHABLE, message) from error
        except aiohttp.ClientConnectorCertificateError as error:
            reason = getattr(error.certificate_error, "verify_message", "") or brief(error.certificate_error)
            message = f"the certificate of device {device} can't be verified: {reason}; {_HOW_TO_VERIFY}"
            raise LookUpError(NOT_VERIFIED, message, refused=True) from error  # another Secret may have the right keys
        except (OSError, ValueError, aiohttp.ClientError) as error:
            raise LookUpError(UNREACHABLE, f"device {device} can't be reached: {brief(error)}") from error

    async def _session(self, device: str, credentials: Credentials) -> aiohttp.ClientSession:
        """An HTTP session. Devices are named by addresses, so no name can be resolved to something else later."""
        if addresses.parsed(device) is None:
            raise ValueError("its name is not an IP address")
        await asyncio.to_thread(self._resolve, device, self._ports.ec2)
        try:
            context = await asyncio.to_thread(_tls, credentials.authorities)
        except (ssl.SSLError, ValueError) as error:
            message = f"field {references.AUTHORITIES} of the Secret has no valid certificates: {brief(error)}"
            raise LookUpError(NOT_VERIFIED, message, refused=True) from error
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=context, limit=1),
            auto_decompress=False,  # what is read is counted
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, connect=CONNECT, sock_connect=CONNECT, sock_read=CONNECT),
        )


def _tls(authorities: str) -> ssl.SSLContext:
    """A context that trusts only these certificates, which devices sign themselves."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=authorities)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # certificates of several devices may have one name
    return context


class _Apis:
    """The APIs of a device in one session."""

    def __init__(self, session: aiohttp.ClientSession, device: str, ports: Ports, credentials: Credentials) -> None:
        self._session = session
        self._host = device
        self._ports = ports
        self._credentials = credentials
        self._received = Received(f"device {device}", LARGEST)

    async def answers(self, query: Query) -> Answers:
        """Ask all questions. Raises `LookUpError`."""
        state = (await self._call_device("DescribeDevice", _Device)).unlock_status.state
        if state != _UNLOCKED:
            shown_state = brief(state) or "nothing"
            message = (
                f"device {self._host} is not unlocked: found {shown_state}; unlock it (`snowballEdge unlock-device`)"
            )
            raise LookUpError(LOCKED, message)
        software = (await self._call_device("DescribeDeviceSoftware", _Software)).installed_version
        types = await self._list_all(signed.INSTANCE_TYPES, "InstanceTypes")
        keys = await self._list_all(signed.KEY_PAIRS, "KeyPairs")
        images = await self._list_all(signed.IMAGES, "Images") if query.images else None
        return Answers(
            software=software or "",
            instance_types={
                instance_type.get("InstanceType", ""): instance_type.get("VCpuInfo", {}).get("DefaultVCpus", 0)
                for instance_type in types
            },
            key_pairs=frozenset(key_pair.get("KeyName", "") for key_pair in keys),
            images=frozenset(
                image.get("ImageId", "") for image in images if image.get("State", "available") == "available"
            )
            if images is not None
            else None,
        )

    async def _call_device(self, action: str, type_: type[T]) -> T:
        headers = {"Content-Type": "application/x-amz-json-1.1", "X-Amz-Target": f"{_TARGET}.{action}"}
        status, content = await self._post(self._ports.device, signed.DEVICE, headers, b"{}")
        if status != 200:
            try:
                error = json_trees.decode(content, _Error)
            except msgspec.MsgspecError:
                error = _Error()
            self._raise(action, status, error.type.rpartition("#")[2], error.message or error.title)
        try:
            return json_trees.decode(content, type_)
        except msgspec.MsgspecError as error:
            raise self._unexpected(action, brief(error)) from error

    async def _list_all(self, action: str, member: str) -> Sequence[Mapping[str, Any]]:
        """All items of a list of the EC2 API."""
        items: list[Mapping[str, Any]] = []
        token = ""
        for _ in range(MOST_PAGES):
            page = await self._call_ec2(action, {"NextToken": token} if token else {})
            if member not in page:
                raise self._unexpected(action, f"it has no {member}")
            items += page[member]
            token = page.get("NextToken") or ""
            if not token:
                return items
        raise self._unexpected(action, f"it has more than {MOST_PAGES} pages")

    async def _call_ec2(self, action: str, fields: Mapping[str, str]) -> Mapping[str, Any]:
        headers = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}
        body = urlencode({"Action": action, "Version": signed.VERSION, **fields}).encode()
        status, content = await self._post(self._ports.ec2, signed.EC2, headers, body)
        try:
            answer = await asyncio.to_thread(signed.read, action, status, content)
        except signed.NotReadable as error:
            if status == 200:
                raise self._unexpected(action, str(error)) from error
            answer = {}
        if status != 200:
            error_tree = answer.get("Error")
            code, message = (
                (error_tree.get(field) or "" for field in ("Code", "Message"))
                if isinstance(error_tree, dict)
                else ("", "")
            )
            self._raise(action, status, str(code), str(message))
        return answer

    async def _post(self, port: int, service: str, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        url = f"https://{in_url(self._host)}:{port}/"
        signed_headers = await asyncio.to_thread(
            signed.signed, url, headers, body, service=service, credentials=self._credentials
        )
        signed_headers |= {"Accept": "*/*", "Accept-Encoding": "identity"}
        async with self._session.post(URL(url), data=body, headers=signed_headers, allow_redirects=False) as response:
            parts: list[bytes] = []
            async for part in response.content.iter_chunked(1 << 16):
                self._received.add(len(part))
                parts.append(part)
            return response.status, b"".join(parts)

    def _raise(self, action: str, status: int, code: str, message: str) -> NoReturn:
        """Raise the `LookUpError` for an error of one of the APIs."""
        if code in _FORBIDDEN:
            problem = f"the keys for device {self._host} do not allow {action}; allow it, or use other keys"
            raise LookUpError(LOGIN_REFUSED, problem, refused=True)
        if code in _REFUSED or status in (401, 403):
            problem = f"device {self._host} rejected the keys of its profile; correct the Secret with the credentials"
            raise LookUpError(LOGIN_REFUSED, problem, refused=True)
        text = brief(f"{code} {message}") or "no reason"
        raise LookUpError(UNEXPECTED, f"device {self._host} answered {status} to {action}: {text}")

    def _unexpected(self, action: str, reason: str) -> LookUpError:
        return LookUpError(UNEXPECTED, f"device {self._host} did not return a valid response to {action} ({reason})")


_HOW_TO_VERIFY = (
    "put the certificate of the device (`snowballEdge get-certificate`) into field "
    f"{references.AUTHORITIES} of the Secret"
)
