"""A serving certificate that somebody else issues: it is trusted and served, and the Secret is only read."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from espalier.api.core import MUTATING_WEBHOOK_CONFIGURATION, SECRET, VALIDATING_WEBHOOK_CONFIGURATION
from espalier.kube.connection.pki import Authority, KeyPair
from espalier.runtime.servers.certificates import ServingCertificate
from espalier.runtime.virtual import Simulation
from tests.support.environments.simulated_loop import simulate
from tests.support.servers.small_server import SmallServer, client_of
from tests.support.waiting import running

DAY = 86400.0
NAMES = ("hooks.eksa-system.svc", "hooks.eksa-system.svc.cluster.local")
RETRIES = 60.0


class Replica:
    def __init__(self, server: SmallServer, simulation: Simulation) -> None:
        self.served: list[KeyPair] = []
        self.certificate = ServingCertificate(
            client_of(server),
            namespace="eksa-system",
            names=NAMES,
            validating=["espalier"],
            mutating=["espalier"],
            serve=self.served.append,
            clock=simulation.clock,
            rng=simulation.random,
            secret_name="issued",
            issued=True,
        )

    @property
    def trouble(self) -> str:
        return str(self.certificate.trouble or "")

    async def run(self) -> None:
        self.certificate.begin()
        async with asyncio.TaskGroup() as group:
            group.create_task(self.certificate.caches.run())
            group.create_task(self.certificate.controller.run())


def issue(server: SmallServer, data: Mapping[str, bytes]) -> None:
    encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
    metadata = {"name": "issued", "namespace": "eksa-system"}
    server.put({"metadata": metadata, "type": "kubernetes.io/tls", "data": encoded}, SECRET)


def issued(simulation: Simulation, *, names: tuple[str, ...] = NAMES, days: float = 90) -> dict[str, bytes]:
    now = simulation.clock.now()
    authority = Authority.create("issuer", now=now, rng=simulation.random)
    pair = authority.issue_server(names[0], names=names, now=now, days=days)
    return {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": authority.certificate}


def bundles(server: SmallServer) -> set[bytes]:
    return {
        base64.b64decode(webhook["clientConfig"].get("caBundle", ""))
        for path, tree in server.objects.items()
        if path.endswith("webhookconfigurations/espalier")
        for webhook in tree["webhooks"]
    }


def play(story: Callable[[SmallServer, Simulation, Replica], Awaitable[None]]) -> None:
    async def main(simulation: Simulation) -> None:
        server = SmallServer()
        webhooks: list[dict[str, Any]] = [{"name": "a", "clientConfig": {"service": {"name": "hooks"}}}]
        for resource in (VALIDATING_WEBHOOK_CONFIGURATION, MUTATING_WEBHOOK_CONFIGURATION):
            server.put({"metadata": {"name": "espalier"}, "webhooks": webhooks}, resource)
        replica = Replica(server, simulation)
        async with running(replica):
            await story(server, simulation, replica)

    simulate(main)


def below_an_intermediate(simulation: Simulation) -> dict[str, bytes]:
    """An issued certificate whose chain is in tls.crt, in any order, and ends at the root in ca.crt."""
    now = simulation.clock.now()
    root, other = (Authority.create(name, now=now, rng=simulation.random) for name in ("root", "other"))
    below = Authority.create("below", now=now, rng=simulation.random)
    signed = (
        x509.CertificateBuilder()
        .subject_name(below.x509.subject)
        .issuer_name(root.x509.subject)
        .public_key(below.x509.public_key())
        .serial_number(7)
        .not_valid_before(below.x509.not_valid_before_utc)
        .not_valid_after(below.not_after)
        .sign(load_pem_private_key(root.key, None), hashes.SHA256())  # type: ignore[arg-type]  # P-256
    )
    pair = below.issue_server(NAMES[0], names=NAMES, now=now, days=90)
    chain = pair.certificate + other.certificate + signed.public_bytes(Encoding.PEM)
    return {"tls.crt": chain, "tls.key": pair.key, "ca.crt": other.certificate + root.certificate}


def self_signed(simulation: Simulation) -> dict[str, bytes]:
    """A serving certificate that is its own authority."""
    data = issued(simulation)
    return data | {"ca.crt": data["tls.crt"]}


@pytest.mark.parametrize("make", [below_an_intermediate, self_signed])
def test_each_chain_to_a_trusted_certificate_is_served(make: Callable[[Simulation], dict[str, bytes]]) -> None:
    async def story(server: SmallServer, simulation: Simulation, replica: Replica) -> None:
        data = make(simulation)
        issue(server, data)
        await asyncio.sleep(1)
        assert (replica.trouble, bundles(server)) == ("", {data["ca.crt"]})

    play(story)


def secret(server: SmallServer) -> Any:
    return server.objects["/api/v1/namespaces/eksa-system/secrets/issued"]


def test_an_issued_certificate_is_waited_for() -> None:
    async def story(server: SmallServer, simulation: Simulation, replica: Replica) -> None:
        await asyncio.sleep(DAY)
        assert replica.trouble == "Secret eksa-system/issued: found none; create it, or have cert-manager do so"
        assert not any("secrets" in path for path in server.objects)
        data = issued(simulation)
        issue(server, data)
        await asyncio.sleep(1)
        assert replica.served == [KeyPair(data["tls.crt"], data["tls.key"])]
        assert bundles(server) == {data["ca.crt"]}
        assert replica.trouble == ""

    play(story)


def test_a_renewed_certificate_is_served_at_once() -> None:
    async def story(server: SmallServer, simulation: Simulation, replica: Replica) -> None:
        issue(server, issued(simulation))
        await asyncio.sleep(1)
        renewed = issued(simulation)
        issue(server, renewed)
        await asyncio.sleep(1)
        assert replica.served[1:] == [KeyPair(renewed["tls.crt"], renewed["tls.key"])]
        assert bundles(server) == {renewed["ca.crt"]}

    play(story)


def test_an_issued_certificate_is_not_renewed_here() -> None:
    """Not even one that ends; whoever issues it is told by then."""

    async def story(server: SmallServer, simulation: Simulation, replica: Replica) -> None:
        issue(server, issued(simulation, days=10))
        before = dict(secret(server))
        await asyncio.sleep(9.9 * DAY)
        assert replica.trouble == ""
        await asyncio.sleep(0.2 * DAY)
        assert "found a certificate that ended 20" in replica.trouble
        assert secret(server) == before
        assert len(replica.served) == 1

    play(story)


WRONG: dict[str, tuple[Callable[[Simulation], Mapping[str, bytes]], str]] = {
    "empty": (lambda _: {}, "found no tls.crt, tls.key, ca.crt; needed are tls.crt, tls.key and ca.crt"),
    "without authority": (lambda now: issued(now) | {"ca.crt": b""}, "found no ca.crt"),
    "no certificate": (lambda now: issued(now) | {"tls.crt": b"x"}, "found no valid PEM (ValueError)"),
    "no key": (lambda now: issued(now) | {"tls.key": b"\xff\x00"}, "found no valid PEM"),
    "no authority": (lambda now: issued(now) | {"ca.crt": b"\xff"}, "found no valid PEM"),
    "another key": (lambda now: issued(now) | {"tls.key": issued(now)["tls.key"]}, "a tls.key that is not of tls.crt"),
    "another authority": (
        lambda now: issued(now) | {"ca.crt": issued(now)["ca.crt"]},
        "found a tls.crt that no authority in ca.crt has issued",
    ),
    "an authority's": (
        lambda now: issued(now) | {"tls.crt": issued(now)["ca.crt"]},
        "found no valid PEM (ExtensionNotFound)",
    ),
    "other names": (
        lambda now: issued(now, names=("a.example", NAMES[1])),
        f"found a certificate for a.example, {NAMES[1]}; needed is one for {NAMES[0]}",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_unusable_certificates_keep_the_last_one(case: str) -> None:
    make, message = WRONG[case]

    async def story(server: SmallServer, simulation: Simulation, replica: Replica) -> None:
        good = issued(simulation)
        issue(server, good)
        await asyncio.sleep(1)
        issue(server, make(simulation))
        before = dict(secret(server))
        await asyncio.sleep(RETRIES)
        assert replica.trouble.startswith("Secret eksa-system/issued: ")
        assert message in replica.trouble
        assert (len(replica.served), bundles(server)) == (1, {good["ca.crt"]})
        assert secret(server) == before

    play(story)
