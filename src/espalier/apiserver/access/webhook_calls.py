"""Calls admission webhooks over HTTPS."""

from __future__ import annotations

import math
import ssl

import aiohttp

from espalier.apiserver.access.webhooks import CallFailed, WebhookCall
from espalier.kube.connection.tls import CertificateError, client_context
from espalier.kube.transports import channel

MAX_ANSWER = 16 * 1024 * 1024
"""The maximum bytes of a response."""


class HttpWebhooks:
    """A `CallWebhook` over the network. Connections are kept open between calls, until `close`."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None
        self._contexts: dict[bytes, ssl.SSLContext] = {}

    async def __call__(self, call: WebhookCall) -> bytes:
        """Make a call. Raises `CallFailed`."""
        if not call.url:
            raise CallFailed(
                f"failed to call webhook: this API server reaches no Services ({call.service}); "
                "give clientConfig.url instead"
            )
        session = self._session = self._session or aiohttp.ClientSession()
        separator = "&" if "?" in call.url else "?"
        url = f"{call.url}{separator}timeout={math.ceil(call.timeout)}s"
        try:
            async with session.post(
                url,
                data=call.body,
                ssl=self._context(call.ca_bundle),
                timeout=aiohttp.ClientTimeout(total=call.timeout),
                headers={"Content-Type": "application/json", "Accept": "application/json"},
                allow_redirects=False,
            ) as response:
                body = await _read(response)
        except TimeoutError as error:
            raise CallFailed(f'failed to call webhook: Post "{url}": no answer within {call.timeout:g} s') from error
        except (aiohttp.ClientError, CertificateError, ValueError, OSError) as error:
            raise CallFailed(f'failed to call webhook: Post "{url}": {_reason(error)}') from error
        if response.status != 200:
            text = body[:200].decode("utf-8", "replace").strip()
            raise CallFailed(f"failed to call webhook: the server answered {response.status} {text}".rstrip())
        return body

    async def close(self) -> None:
        """Close connections; idempotent."""
        session, self._session = self._session, None
        self._contexts.clear()
        if session is not None:
            await session.close()

    def _context(self, ca_bundle: bytes) -> ssl.SSLContext:
        context = self._contexts.get(ca_bundle)
        if context is None:
            context = client_context(ca_bundle or None)
            self._contexts[ca_bundle] = context
        return context


def _reason(error: Exception) -> str:
    """The text of an error. aiohttp's own of a refused connection has the repr of a Python object."""
    if isinstance(error, aiohttp.ClientConnectorError) and not isinstance(error, aiohttp.ClientSSLError):
        return f"dial tcp {error.host}:{error.port}: {channel.reason(error.os_error).lower()}"
    return str(error)


async def _read(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > MAX_ANSWER:
            raise CallFailed(f"failed to call webhook: the answer is larger than {MAX_ANSWER} bytes")
    return bytes(body)
