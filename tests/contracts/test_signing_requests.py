"""CertificateSigningRequests, on the embedded API server as on kube-apiserver."""

from __future__ import annotations

import asyncio
import base64
import random
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from msgspec import structs

from espalier.api.core import CERTIFICATE_SIGNING_REQUEST as REQUESTS
from espalier.api.core import CLIENT_SIGNER
from espalier.api.meta import Tree
from espalier.kube import client_certificates
from espalier.kube.client import Client, PatchType
from espalier.kube.connection.pki import Authority, new_request
from espalier.kube.errors import Conflict, Forbidden, Invalid, NotFound, NotIssued
from espalier.kube.objects import Object
from espalier.simulator.workload_controllers.planners import certificates
from espalier.simulator.workload_controllers.snapshot import Snapshot
from espalier.simulator.workload_controllers.views import CertificateRequest
from espalier.simulator.workload_controllers.writes import Change


def body(*groups: str, **spec: Any) -> Tree:
    request = base64.b64encode(new_request("jane", groups).certificate).decode()
    own = {"request": request, "signerName": CLIENT_SIGNER, "usages": ["client auth"], **spec}
    return {"metadata": {"generateName": "contract-"}, "spec": own}


async def decide(client: Client, name: str, *types: str, status: str = "True") -> Object:
    conditions = [{"type": type_, "status": status, "reason": "Test"} for type_ in types]
    patch = {"status": {"conditions": conditions}}
    return await client.patch(REQUESTS, name, patch=patch, type=PatchType.MERGE, subresource="approval")


async def test_the_requester_is_who_asks(client: Client) -> None:
    named = body(username="somebody", groups=["others"], uid="5")
    created = (await client.create(REQUESTS, named)).tree
    assert created["spec"]["username"] != "somebody"
    assert "system:masters" in created["spec"]["groups"]
    assert created["spec"].get("uid") != "5"


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"request": base64.b64encode(b"nothing").decode()}, "spec.request"),
        ({"usages": []}, "spec.usages"),
        ({"usages": ["client auth", "nonsense"]}, "spec.usages[1]"),
        ({"usages": ["Client Auth"]}, "spec.usages[0]"),
        ({"signerName": "plain"}, "spec.signerName"),
        ({"signerName": "kubernetes.io/legacy-unknown"}, "spec.signerName"),
        ({"expirationSeconds": 599}, "spec.expirationSeconds"),
    ],
)
async def test_a_wrong_request_is_refused(client: Client, spec: Tree, field: str) -> None:
    with pytest.raises(Invalid) as refusal:
        await client.create(REQUESTS, body(**spec))
    details = refusal.value.status.details
    assert details is not None
    assert [cause.field for cause in details.causes] == [field]


async def test_known_usages_are_listed_in_a_refusal(client: Client) -> None:
    with pytest.raises(Invalid) as refusal:
        await client.create(REQUESTS, body(usages=["nonsense"]))
    details = refusal.value.status.details
    assert details is not None
    (cause,) = details.causes
    assert cause.reason == "FieldValueNotSupported"
    assert cause.message.startswith(
        'Unsupported value: "nonsense": supported values: "any", "cert sign", "client auth",'
    )
    usages = cause.message.partition("supported values: ")[2].replace('"', "").split(", ")
    assert len(usages) == 23
    await client.create(REQUESTS, body(usages=usages, signerName="example.com/nobody"))


async def test_nobody_becomes_administrator(client: Client) -> None:
    with pytest.raises(Forbidden, match="system:masters group is not allowed"):
        await client.create(REQUESTS, body("system:masters"))


async def test_a_spec_is_written_once(client: Client) -> None:
    created = await client.create(REQUESTS, body())
    patch = {"metadata": {"labels": {"a": "b"}}, "spec": {"signerName": "example.com/other"}}
    changed = (await client.patch(REQUESTS, created.name, patch=patch, type=PatchType.MERGE)).tree
    assert changed["spec"]["signerName"] == CLIENT_SIGNER
    assert changed["metadata"]["labels"] == {"a": "b"}


async def test_only_approval_approves(client: Client) -> None:
    created = await client.create(REQUESTS, body(signerName="example.com/nobody"))
    approved = {"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "Test"}]}}
    written = await client.patch(REQUESTS, created.name, patch=approved, type=PatchType.MERGE)
    assert written.tree["status"] == {}
    with pytest.raises(Invalid, match='may not add a condition of type "Approved"'):
        await client.patch(REQUESTS, created.name, patch=approved, type=PatchType.MERGE, subresource="status")
    conditions = (await decide(client, created.name, "Approved")).tree["status"]["conditions"]
    assert [condition["type"] for condition in conditions] == ["Approved"]
    assert all(conditions[0][name] for name in ("lastUpdateTime", "lastTransitionTime"))


async def test_a_decision_is_final(client: Client) -> None:
    created = await client.create(REQUESTS, body(signerName="example.com/nobody"))
    with pytest.raises(Invalid):
        await decide(client, created.name, "Approved", "Denied")
    with pytest.raises(Invalid):
        await decide(client, created.name, "Approved", status="False")
    await decide(client, created.name, "Denied")
    with pytest.raises(Invalid, match="may not remove a condition"):
        await decide(client, created.name)
    with pytest.raises(Invalid):
        await decide(client, created.name, "Denied", "Approved")


@pytest.fixture
async def signer(request: pytest.FixtureRequest, client: Client) -> Authority | None:
    """Where no kube-controller-manager runs, the simulated signer signs; None where one does."""
    if request.node.callspec.params["transport"] == "real":
        return None
    return Authority.create("contract", now=datetime.now(UTC))


async def sign(client: Client, authority: Authority) -> None:
    while True:
        requests = [item.decode(CertificateRequest) for item in (await client.list(REQUESTS)).items]
        snapshot = Snapshot(
            datetime.now(UTC),
            random.Random(1),
            "10.0.0.0/8",
            certificate_requests=tuple(requests),
            authority=authority,
        )
        for write in certificates.plan(snapshot):
            assert isinstance(write, Change)
            await client.patch(
                REQUESTS, write.key.name, patch=write.patch, type=PatchType.MERGE, subresource=write.subresource
            )
        await asyncio.sleep(0.05)


async def test_an_approved_request_is_signed(client: Client, signer: Authority | None) -> None:
    signing = asyncio.create_task(sign(client, signer)) if signer is not None else None
    pair = await client_certificates.issue(client, "jane", ("developers",), seconds=3600)
    subject = {attribute.oid._name: attribute.value for attribute in pair.x509.subject}
    assert subject == {"organizationName": "developers", "commonName": "jane"}
    assert 3500 < (pair.not_after - datetime.now(UTC)).total_seconds() < 3700
    assert not [item for item in (await client.list(REQUESTS)).items if item.name.startswith("espalier-")]
    if signing is not None:
        signing.cancel()


async def test_a_signed_request_is_not_signed_again(client: Client) -> None:
    """The signer of the simulator may see a request as it was before."""
    created = await client.create(REQUESTS, body(signerName="example.com/nobody"))
    approved = await decide(client, created.name, "Approved")
    earlier = approved.decode(CertificateRequest)
    earlier = structs.replace(earlier, spec=structs.replace(earlier.spec, signer_name=CLIENT_SIGNER))
    authority = Authority.create("contract", now=datetime.now(UTC))
    snapshot = Snapshot(
        datetime.now(UTC), random.Random(1), "10.0.0.0/8", certificate_requests=(earlier,), authority=authority
    )
    expected: list[AbstractContextManager[object]] = [nullcontext(), pytest.raises(Conflict)]
    for error in expected:
        [write] = certificates.plan(snapshot)
        assert isinstance(write, Change)
        with error:
            await client.patch(REQUESTS, created.name, patch=write.patch, type=PatchType.MERGE, subresource="status")


async def test_a_request_that_nobody_signs_is_removed(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_certificates, "CLIENT_SIGNER", "example.com/nobody")
    with pytest.raises(NotIssued, match=r"approved, but not signed within 0\.5 s"):
        await client_certificates.issue(client, "jane", seconds=3600, patience=0.5)
    assert not [item for item in (await client.list(REQUESTS)).items if item.name.startswith("espalier-")]


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ({"certificate": 5}, "can't be read"),
        ({"certificate": "abc"}, "can't be read"),
        ({"certificate": base64.b64encode(b"no certificate").decode()}, "can't be read"),
        ({"certificate": base64.b64encode(bytes(70_000)).decode()}, "more than 64 KiB"),
        ({"conditions": [{"type": "Denied", "message": "no\x1b[31m" * 10_000}]}, "was denied"),
    ],
)
def test_a_hostile_answer_is_no_certificate(status: Tree, words: str) -> None:
    answer = Object(msgspec.json.encode({"metadata": {"name": "a"}, "status": status}))

    def read() -> None:
        certificate = client_certificates._certificate(answer, "a")
        client_certificates._checked(certificate or b"", new_request("jane").key, "jane")

    with pytest.raises(NotIssued, match=words) as refusal:
        read()
    assert len(str(refusal.value)) < 1000
    assert str(refusal.value).isprintable()


async def test_a_request_that_is_gone_is_told(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_certificates, "CLIENT_SIGNER", "example.com/nobody")
    issuing = asyncio.create_task(client_certificates.issue(client, "jane", seconds=3600))
    while True:
        own = [item for item in (await client.list(REQUESTS)).items if item.name.startswith("espalier-")]
        if own and (own[0].tree["status"].get("conditions")):
            break
        await asyncio.sleep(0.01)
    await client.delete(REQUESTS, own[0].name)
    with pytest.raises(NotIssued, match="somebody deleted"):
        await issuing
    with pytest.raises(NotFound):
        await client.get(REQUESTS, own[0].name)
