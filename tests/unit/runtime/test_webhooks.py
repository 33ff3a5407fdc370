"""The webhook server over TLS, while its certificate is exchanged."""

from __future__ import annotations

from datetime import UTC, datetime

import aiohttp
import msgspec
import pytest

from espalier.kube.connection.pki import Authority, KeyPair
from espalier.kube.connection.tls import client_context
from espalier.runtime.servers.admission import AdmissionRequest, AdmissionResponse
from espalier.runtime.servers.webhooks import Webhooks

REVIEW = msgspec.json.encode({"request": {"uid": "u1", "operation": "CREATE", "object": {"metadata": {"name": "a"}}}})


async def post(
    webhooks: Webhooks, path: str, authority: Authority, body: bytes = REVIEW, pair: KeyPair | None = None
) -> tuple[int, bytes]:
    context = client_context(
        authority.certificate, certificate=pair.certificate if pair else None, key=pair.key if pair else None
    )
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"https://127.0.0.1:{webhooks.port}{path}", data=body, ssl=context) as response,
    ):
        return response.status, await response.read()


def refuse(request: AdmissionRequest) -> AdmissionResponse:
    return AdmissionResponse(False, f"{request.object.name if request.object else ''} may not be")


async def test_new_certificate_is_served_without_a_restart() -> None:
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
    with pytest.raises(ValueError, match="already has a handler"):
        webhooks.handle("/validate-things", refuse)


async def test_unknown_path_does_not_reveal_served_ones() -> None:
    now = datetime.now(UTC)
    authority = Authority.create("first", now=now)
    webhooks = Webhooks(host="127.0.0.1", port=0)
    webhooks.handle("/validate-things", refuse)
    webhooks.use(authority.issue_server("hooks", names=["127.0.0.1"], now=now))
    await webhooks.start()
    try:
        status, body = await post(webhooks, "/x", authority)
    finally:
        await webhooks.stop()
    assert status == 404
    assert b"things" not in body


async def test_client_authority_admits_api_servers_alone() -> None:
    now = datetime.now(UTC)
    authority, clients, others = (Authority.create(name, now=now) for name in ("serving", "clients", "others"))
    webhooks = Webhooks(host="127.0.0.1", port=0, client_ca=clients.certificate)
    asked: list[str] = []

    def allow(request: AdmissionRequest) -> AdmissionResponse:
        asked.append(request.operation)
        return AdmissionResponse()

    async def endpoint(body: bytes) -> bytes:
        return body

    webhooks.handle("/validate-things", allow)
    webhooks.serve("/hooks", endpoint)
    webhooks.use(authority.issue_server("hooks", names=["127.0.0.1"], now=now))
    await webhooks.start()
    try:
        assert (await post(webhooks, "/validate-things", authority))[0] == 403
        assert (await post(webhooks, "/x", authority))[0] == 403
        assert (await post(webhooks, "/hooks", authority))[0] == 200, "Cluster API shows no certificate"
        assert asked == []
        with pytest.raises((aiohttp.ClientError, OSError)):
            await post(webhooks, "/validate-things", authority, pair=others.issue_client("apiserver", now=now))
        assert asked == []
        pair = clients.issue_client("apiserver", now=now)
        assert (await post(webhooks, "/validate-things", authority, pair=pair))[0] == 200
        assert asked == ["CREATE"]
    finally:
        await webhooks.stop()
