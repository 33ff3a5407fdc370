"""Certificates of webhooks that the command issues: whom callers trust, and when there are new ones."""

from __future__ import annotations

import random
from base64 import b64decode
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from espalier.api.core import NAMESPACE, SECRET
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.apiserver.server import Server
from espalier.apiserver.storage.store import MemoryStore
from espalier.kube.client import Client
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.management import webhook_certificates
from espalier.management.webhook_certificates import certified, is_usable, issued

NOW = datetime(2026, 5, 1, tzinfo=UTC)
SERVICE = {"name": "oak-kubeadm-control-plane-webhook-service", "namespace": "oak-kubeadm-control-plane-system"}
WANTED: Tree = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {
        "name": "oak-kubeadm-control-plane-webhook-service-cert",
        "namespace": "oak-kubeadm-control-plane-system",
    },
    "type": "kubernetes.io/tls",
}
WEBHOOKS: Tree = {
    "kind": "ValidatingWebhookConfiguration",
    "metadata": {"name": "oak"},
    "webhooks": [{"name": "a", "clientConfig": {"service": {**SERVICE, "path": "/a"}}}],
}
DEFINITION: Tree = {
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "oaks.example.com"},
    "spec": {"conversion": {"strategy": "Webhook", "webhook": {"clientConfig": {"service": SERVICE}}}},
}
OTHERS: list[Tree] = [
    {"kind": "CustomResourceDefinition", "metadata": {"name": "elms.example.com"}, "spec": {}},
    {
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "elm"},
        "webhooks": [
            {"name": "a", "clientConfig": {"service": {"name": "elm", "namespace": "oak-kubeadm-control-plane-system"}}}
        ],
    },
    {
        **WANTED,
        "metadata": {"name": "elm-cert", "namespace": "oak-kubeadm-control-plane-system"},
        "data": {"tls.crt": "AA=="},
    },
]


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    server = Server(MemoryStore(), now=lambda: NOW, random=random.Random(1))
    await server.start()
    client = Client(InProcessTransport(server), field_manager="test", user_agent="test")
    await client.create(NAMESPACE, {"metadata": {"name": "oak-kubeadm-control-plane-system"}})
    yield client
    await client.close()
    await server.close()


def data_of(tree: Tree) -> dict[str, bytes]:
    return {name: b64decode(value) for name, value in tree["data"].items()}


async def test_callers_trust_the_issued_certificate(client: Client) -> None:
    secret, webhooks, definition = await certified(client, [WANTED, WEBHOOKS, DEFINITION], NOW)
    data = data_of(secret)
    certificate = x509.load_pem_x509_certificate(data["tls.crt"])
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(data["ca.crt"]))
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert (
        "oak-kubeadm-control-plane-webhook-service.oak-kubeadm-control-plane-system.svc"
        in names.get_values_for_type(x509.DNSName)
    )
    bundles = {
        webhooks["webhooks"][0]["clientConfig"]["caBundle"],
        definition["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"],
    }
    assert bundles == {secret["data"]["ca.crt"]}
    assert webhooks["webhooks"][0]["clientConfig"]["service"] == {**SERVICE, "path": "/a"}
    assert "data" not in WANTED


async def test_webhooks_of_other_services_stay_as_they_are(client: Client) -> None:
    assert (await certified(client, [WANTED, *OTHERS], NOW))[1:] == OTHERS


async def test_certificate_of_the_cluster_is_kept(client: Client) -> None:
    first = await certified(client, [WANTED, WEBHOOKS], NOW)
    await client.create(SECRET, first[0])
    soon = NOW + timedelta(days=webhook_certificates.DAYS) - webhook_certificates.RENEWED_WITHIN
    assert await certified(client, [WANTED, WEBHOOKS], soon - timedelta(days=1)) == first
    renewed = await certified(client, [WANTED, WEBHOOKS], soon)
    assert renewed[0]["data"]["ca.crt"] == renewed[1]["webhooks"][0]["clientConfig"]["caBundle"]
    assert renewed[0]["data"]["ca.crt"] != first[0]["data"]["ca.crt"]


@pytest.mark.parametrize("field", ["tls.crt", "tls.key", "ca.crt"])
def test_damaged_certificate_is_not_used(field: str) -> None:
    data = issued(Key("oak", "oak-kubeadm-control-plane-webhook-service-cert"), NOW)
    assert is_usable(data, NOW)
    assert not is_usable({name: value for name, value in data.items() if name != field}, NOW)
    assert not is_usable({**data, field: b""}, NOW) or field == "tls.key"
