"""The webhook server over TLS, while its certificate is exchanged."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime

import aiohttp
import msgspec
import pytest

from espalier.kube.pki import Authority
from espalier.runtime.admission import AdmissionRequest, AdmissionResponse
from espalier.runtime.webhooks import Webhooks

REVIEW = msgspec.json.encode({"request": {"uid": "u1", "operation": "CREATE", "object": {"metadata": {"name": "a"}}}})


def trusting(authority: Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=authority.certificate.decode())


async def post(webhooks: Webhooks, path: str, authority: Authority, body: bytes = REVIEW) -> tuple[int, bytes]:
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"https://127.0.0.1:{webhooks.port}{path}", data=body, ssl=trusting(authority)) as response,
    ):
        return response.status, await response.read()


def refuse(request: AdmissionRequest) -> AdmissionResponse:
    return AdmissionResponse(False, f"{request.object.name if request.object else ''} may not be")


async def test_reviews_are_answered_and_a_new_certificate_is_served_without_a_restart() -> None:
    now = datetime.now(UTC)
    authorities = [Authority.create(name, now=now) for name in ("first", "second")]
    webhooks = Webhooks(host="127.0.0.1", port=0)
    webhooks.handle("/validate-things", refuse)
    webhooks.use(authorities[0].issue_server("hooks", names=["127.0.0.1"], now=now))
    await webhooks.start()
    try:
        status, body = await post(webhooks, "/validate-things", authorities[0])
        assert status == 200
        assert msgspec.json.decode(body)["response"]["status"]["message"] == "a may not be"
        assert (await post(webhooks, "/validate-others", authorities[0]))[0] == 404
        assert (await post(webhooks, "/validate-things", authorities[0], b"{}"))[0] == 400
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await post(webhooks, "/validate-things", authorities[1])
        webhooks.use(authorities[1].issue_server("hooks", names=["127.0.0.1"], now=now))
        assert (await post(webhooks, "/validate-things", authorities[1]))[0] == 200
    finally:
        await webhooks.stop()


async def test_a_path_has_one_handler() -> None:
    webhooks = Webhooks(port=None)
    webhooks.handle("/validate-things", refuse)
    with pytest.raises(ValueError, match="has a handler already"):
        webhooks.handle("/validate-things", refuse)
