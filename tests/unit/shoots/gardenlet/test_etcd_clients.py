"""Which certificate an API server presents to etcd, and whether etcd still answers without one."""

from __future__ import annotations

from typing import Any

import pytest

from espalier.api.core import DEPLOYMENT
from espalier.api.gardener.etcd import Etcd
from espalier.api.gardener.vocabulary.metadata_keys import EPOCH, PLAIN_CLIENTS
from espalier.kube.objects import Object
from espalier.shoots.gardenlet import rendering
from espalier.shoots.gardenlet.scope import Scope
from tests.support.gardens.gardenlet_scopes import TECHNICAL_ID, an_object, peer_secrets, scope

[SECRET] = [name for name in peer_secrets() if name.startswith("etcd-peer-")]
CLIENT = SECRET.replace("etcd-peer", "etcd-client")
TLS = {"serverTLSSecretRef": {"name": SECRET}}


def etcd(*, tls: bool, plain: bool = False, is_ready: bool = True, replicas: int = 1) -> Object:
    annotations = {EPOCH: "1", **({PLAIN_CLIENTS: "true"} if plain else {})}
    settings = {"peerUrlTls": TLS, **({"clientUrlTls": TLS} if tls else {})}
    return an_object(
        Etcd.resource,
        "etcd-main",
        TECHNICAL_ID,
        metadata={"annotations": annotations, "generation": 2},
        spec={"replicas": replicas, "etcd": settings},
        status={"ready": is_ready, "observedGeneration": 2, "replicas": replicas},
    )


def api_server(secret: str, *, replicas: int = 1, updated: int = 1, running: int = 1, observed: int = 3) -> Object:
    volumes = [{"name": name, "secret": {"secretName": name}} for name in ("ca", *filter(None, [secret]))]
    counts = {"replicas": running, "updatedReplicas": updated, "availableReplicas": running}
    return an_object(
        DEPLOYMENT,
        "kube-apiserver",
        TECHNICAL_ID,
        metadata={"generation": 3},
        spec={"replicas": replicas, "template": {"spec": {"volumes": volumes}}},
        status={**counts, "observedGeneration": observed},
    )


def looked(live: Object | None, server: Object | None, **parts: Any) -> Scope:
    return scope(etcd=live, deployments={"kube-apiserver": server} if server else {}, **parts)


@pytest.mark.parametrize(
    ("live", "server", "roles", "is_plain"),
    [
        (None, None, (), False),
        (etcd(tls=False), api_server(""), (), True),
        (etcd(tls=True, plain=True), api_server(""), (), True),
        (etcd(tls=True, plain=True), api_server(CLIENT, running=2), (), True),
        (etcd(tls=True, plain=True), api_server(CLIENT, updated=0), (), True),
        (etcd(tls=True, plain=True), api_server(CLIENT, observed=2), (), True),
        (etcd(tls=True, plain=True), api_server(CLIENT), (), False),
        (etcd(tls=True), api_server(CLIENT, running=2), (), False),
        (etcd(tls=True), api_server(""), (), False),
        (etcd(tls=False, replicas=0), api_server("", replicas=0, running=0), (), False),
        (etcd(tls=False, replicas=0), api_server("", replicas=0, running=0), ("apiserver",), True),
        (etcd(tls=False), None, ("apiserver",), True),
    ],
    ids=str,
)
def test_plain_clients_are_taken_while_there_are_some(
    live: Object | None, server: Object | None, roles: tuple[str, ...], is_plain: bool
) -> None:
    here = looked(live, server, pod_roles=frozenset(roles))
    assert here.has_plain_clients == is_plain
    rendered = rendering.etcd(here, replicas=1)
    assert (rendered["metadata"]["annotations"].get(PLAIN_CLIENTS) == "true") == is_plain
    assert rendered["spec"]["etcd"]["clientUrlTls"] == TLS


@pytest.mark.parametrize(
    ("live", "server", "secret"),
    [
        (None, None, ""),
        (etcd(tls=False), api_server(""), ""),
        (etcd(tls=True, plain=True, is_ready=False), api_server(""), ""),
        (etcd(tls=True, plain=True), api_server(""), CLIENT),
        (etcd(tls=True, plain=True, is_ready=False), api_server(CLIENT), CLIENT),
        (etcd(tls=True, is_ready=False), api_server(""), CLIENT),
        (etcd(tls=True), None, CLIENT),
    ],
    ids=str,
)
def test_certificate_is_presented_once_all_members_ask(live: Object | None, server: Object | None, secret: str) -> None:
    assert looked(live, server).client_secret == secret


@pytest.mark.parametrize(
    ("live", "server", "is_settled"),
    [
        (etcd(tls=True), api_server(CLIENT), True),
        (etcd(tls=True), api_server("etcd-client-0"), False),
        (etcd(tls=True, is_ready=False), api_server(CLIENT), False),
        (etcd(tls=False), api_server(""), True),
        (etcd(tls=True), api_server(CLIENT, replicas=0, running=0), True),
    ],
    ids=str,
)
def test_renewal_waits_for_api_servers(live: Object, server: Object, is_settled: bool) -> None:
    assert looked(live, server).peer_use.is_settled == is_settled
