"""The life of the serving certificate, told on a clock that jumps."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
from cryptography import x509

from espalier.api.core import MUTATING_WEBHOOK_CONFIGURATION, SECRET, VALIDATING_WEBHOOK_CONFIGURATION
from espalier.kube.connection.pki import KeyPair
from espalier.runtime.leadership.write_limits import BURST, limited
from espalier.runtime.servers.certificates import SECRET_NAME, Lifetime, ServingCertificate
from espalier.runtime.virtual import Simulation
from tests.support.environments.simulated_loop import simulate
from tests.support.servers.small_server import SmallServer, client_of
from tests.support.waiting import running

HOUR = 3600.0
LIFETIME = Lifetime(authority=10, serving=1)
SECRET_PATH = f"/api/v1/namespaces/eksa-system/secrets/{SECRET_NAME}"


class Replica:
    def __init__(self, server: SmallServer, simulation: Simulation, *, names: tuple[str, ...] = ("hooks.svc",)) -> None:
        self.served: list[KeyPair] = []
        self.trusted_when_served: list[list[bytes]] = []
        self._server = server
        self.certificate = ServingCertificate(
            limited(client_of(server)),  # as the manager's are
            namespace="eksa-system",
            names=names,
            validating=["espalier"],
            mutating=["espalier"],
            serve=self._serve,
            clock=simulation.clock,
            rng=simulation.random,
            lifetime=LIFETIME,
        )

    def _serve(self, pair: KeyPair) -> None:
        self.served.append(pair)
        self.trusted_when_served.append(bundles(self._server))

    async def run(self) -> None:
        self.certificate.begin()
        async with asyncio.TaskGroup() as group:
            group.create_task(self.certificate.caches.run())
            group.create_task(self.certificate.controller.run())


def configuration(*webhooks: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "espalier"},
        "webhooks": [{"name": name, "clientConfig": {"service": {"name": "hooks"}}} for name in webhooks],
    }


def bundles(server: SmallServer) -> list[bytes]:
    return [
        base64.b64decode(webhook["clientConfig"].get("caBundle", ""))
        for path, tree in server.objects.items()
        if path.endswith("webhookconfigurations/espalier")
        for webhook in tree["webhooks"]
    ]


def trusts(bundle: bytes, pair: KeyPair) -> bool:
    return any(pair.x509.issuer == authority.subject and verifies(authority, pair) for authority in authorities(bundle))


def authorities(bundle: bytes) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(bundle)


def verifies(authority: x509.Certificate, pair: KeyPair) -> bool:
    try:
        pair.x509.verify_directly_issued_by(authority)
    except Exception:
        return False
    return True


def play(story: Callable[[SmallServer, Simulation], Awaitable[None]]) -> None:
    async def main(simulation: Simulation) -> None:
        server = SmallServer()
        server.put(configuration("a", "b"), VALIDATING_WEBHOOK_CONFIGURATION)
        server.put(configuration("c"), MUTATING_WEBHOOK_CONFIGURATION)
        await story(server, simulation)

    simulate(main)


def test_it_is_made_trusted_and_served() -> None:
    async def story(server: SmallServer, simulation: Simulation) -> None:
        replica = Replica(server, simulation)
        async with running(replica):
            await asyncio.sleep(5)
            (pair,) = replica.served
            assert len(bundles(server)) == 3
            assert all(trusts(bundle, pair) for bundle in replica.trusted_when_served[0])
            assert server.objects[SECRET_PATH]["type"] == "kubernetes.io/tls"
            writes = sum(server.writes.values())
            await asyncio.sleep(15 * HOUR)
            assert sum(server.writes.values()) == writes

    play(story)


def test_two_replicas_agree_on_one() -> None:
    async def story(server: SmallServer, simulation: Simulation) -> None:
        server.slow = 0.05
        replicas = [Replica(server, simulation) for _ in range(2)]
        async with running(*replicas):
            await asyncio.sleep(30)
            assert [len(replica.served) for replica in replicas] == [1, 1]
            assert replicas[0].served == replicas[1].served

    play(story)


def test_certificate_is_renewed_after_two_thirds() -> None:
    async def story(server: SmallServer, simulation: Simulation) -> None:
        replica = Replica(server, simulation)
        async with running(replica):
            await asyncio.sleep(15.5 * HOUR)
            assert len(replica.served) == 1
            await asyncio.sleep(1 * HOUR)
            old, new = replica.served
            assert new.not_after - old.not_after > timedelta(hours=15)
            assert old.x509.issuer == new.x509.issuer
            assert all(trusts(bundle, old) and trusts(bundle, new) for bundle in bundles(server))

    play(story)


@pytest.mark.soak
def test_served_certificates_are_trusted_on_renewal() -> None:
    async def story(server: SmallServer, simulation: Simulation) -> None:
        replica = Replica(server, simulation)
        async with running(replica):
            for _ in range(20 * 24):
                await asyncio.sleep(1 * HOUR)
                assert replica.served[-1].not_after > simulation.clock.now() + timedelta(hours=7)
            pairs = replica.served
            assert 25 <= len(pairs) <= 40
            for before, after, trusted in zip(pairs, pairs[1:], replica.trusted_when_served[1:], strict=False):
                assert all(trusts(bundle, before) and trusts(bundle, after) for bundle in trusted)
            assert max(len(authorities(bundle)) for bundle in bundles(server)) <= 2

    play(story)


def test_overwritten_ca_bundle_is_repaired_alone() -> None:
    async def story(server: SmallServer, simulation: Simulation) -> None:
        replica = Replica(server, simulation)
        async with running(replica):
            await asyncio.sleep(5)
            tree = configuration("a", "new")
            tree["webhooks"][1]["failurePolicy"] = "Ignore"
            server.put(tree, VALIDATING_WEBHOOK_CONFIGURATION)
            server.put({**configuration("x"), "metadata": {"name": "foreign"}}, VALIDATING_WEBHOOK_CONFIGURATION)
            await asyncio.sleep(5)
            assert len(bundles(server)) == 3
            assert all(trusts(bundle, replica.served[0]) for bundle in bundles(server))
            path = VALIDATING_WEBHOOK_CONFIGURATION.path(None, "espalier")
            assert server.objects[path]["webhooks"][1]["failurePolicy"] == "Ignore"
            foreign = server.objects[VALIDATING_WEBHOOK_CONFIGURATION.path(None, "foreign")]
            assert "caBundle" not in foreign["webhooks"][0]["clientConfig"]

    play(story)


def test_deleted_or_unusable_secret_is_made_anew() -> None:
    async def story(server: SmallServer, simulation: Simulation) -> None:
        replica = Replica(server, simulation)
        async with running(replica):
            await asyncio.sleep(5)
            server.remove(SECRET_NAME, "eksa-system", SECRET)
            await asyncio.sleep(5)
            assert len(replica.served) == 2
            tree = server.objects[SECRET_PATH]
            server.put({**tree, "data": {**tree["data"], "tls.crt": base64.b64encode(b"rust").decode()}}, SECRET)
            await asyncio.sleep(5)
            assert len(replica.served) == 3
            assert all(trusts(bundle, replica.served[-1]) for bundle in bundles(server))

    play(story)


def test_other_name_needs_another_certificate() -> None:
    async def story(server: SmallServer, simulation: Simulation) -> None:
        async with running(Replica(server, simulation)):
            await asyncio.sleep(5)
        replica = Replica(server, simulation, names=("hooks.svc", "192.0.2.7"))
        async with running(replica):
            await asyncio.sleep(5)
            (pair,) = replica.served
            names = pair.x509.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
            assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["192.0.2.7"]

    play(story)


def test_replicas_of_different_names_do_not_alternate() -> None:
    """While one is replaced by one with other flags, each would have the pair made for its own names, for ever."""

    async def story(server: SmallServer, simulation: Simulation) -> None:
        names = [("old.svc", "10.0.0.1"), ("new.svc",), ("new.svc", "third.svc")]
        replicas = [Replica(server, simulation, names=own) for own in names]
        async with running(*replicas):
            await asyncio.sleep(60)
            assert server.writes["PATCH"] + server.writes["POST"] < 30
            (pair,) = {replica.served[-1] for replica in replicas}
            extension = pair.x509.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
            served = [
                *extension.get_values_for_type(x509.DNSName),
                *map(str, extension.get_values_for_type(x509.IPAddress)),
            ]
            assert sorted(served) == ["10.0.0.1", "new.svc", "old.svc", "third.svc"]
            assert all(trusts(bundle, pair) for bundle in bundles(server))

    play(story)


@pytest.mark.soak
def test_removed_authority_is_restored_less_often() -> None:
    async def story(server: SmallServer, simulation: Simulation) -> None:
        replica = Replica(server, simulation)
        async with running(replica):
            await asyncio.sleep(5)
            for _ in range(1500):
                server.put(configuration("a", "b"), VALIDATING_WEBHOOK_CONFIGURATION)
                await asyncio.sleep(0.1)
            assert server.writes["PATCH"] < BURST + 30
            await asyncio.sleep(120)
            assert all(trusts(bundle, replica.served[-1]) for bundle in bundles(server))

    play(story)
