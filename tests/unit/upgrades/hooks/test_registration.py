"""Cluster API finds the hooks and trusts their certificate: whatever happens to certificate or ExtensionConfig."""

from __future__ import annotations

import asyncio
import base64
import random

import pytest

from espalier.api.capi.runtime import ExtensionConfig
from espalier.api.core import NAMESPACE
from espalier.api.eksa.upgrades import RUNTIME_EXTENSION
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.apiserver.server import Server
from espalier.apiserver.storage.store import MemoryStore
from espalier.cli.local.environment.management import install_definitions
from espalier.kube.client import Client
from espalier.kube.connection.pki import KeyPair
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.runtime.servers.certificates import Lifetime, ServingCertificate
from espalier.runtime.virtual import Simulation
from espalier.upgrades.hooks.registration import Extension
from tests.support.environments.simulated_loop import simulate
from tests.support.waiting import running

pytestmark = pytest.mark.embedded

HOUR = 3600.0


def test_removed_extension_is_registered_again() -> None:
    async def main(simulation: Simulation) -> None:
        server = Server(MemoryStore(), now=simulation.clock.now, random=random.Random(1))
        await server.start()
        client = Client(InProcessTransport(server))
        await install_definitions([ExtensionConfig], client)
        await client.apply(NAMESPACE, {"metadata": {"name": SYSTEM_NAMESPACE}})
        served: list[KeyPair] = []
        certificate = ServingCertificate(
            client,
            namespace=SYSTEM_NAMESPACE,
            names=["hooks.svc"],
            registrations=[Extension(client, {"service": {"namespace": SYSTEM_NAMESPACE, "name": "s", "port": 443}})],
            serve=served.append,
            clock=simulation.clock,
            rng=simulation.random,
            lifetime=Lifetime(authority=1, serving=1),
        )
        certificate.begin()

        async def registered() -> tuple[bytes, str]:
            extension = await client.get(ExtensionConfig.resource, RUNTIME_EXTENSION)
            spec = extension.tree["spec"]
            assert spec["clientConfig"]["service"] == {"namespace": SYSTEM_NAMESPACE, "name": "s", "port": 443}
            assert spec["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": SYSTEM_NAMESPACE}}
            return base64.b64decode(spec["clientConfig"]["caBundle"]), extension.resource_version

        async with running(certificate.caches, certificate.controller):
            await asyncio.sleep(5)
            bundle, version = await registered()
            assert bundle.count(b"BEGIN CERTIFICATE") == 1
            assert len(served) == 1
            await asyncio.sleep(10 * HOUR)
            assert await registered() == (bundle, version), "nothing was written"
            await asyncio.sleep(10 * HOUR)
            renewed, _ = await registered()
            assert bundle in renewed, "the old authority is trusted as long as it lasts"
            assert renewed != bundle
            await client.delete(ExtensionConfig.resource, RUNTIME_EXTENSION)
            await asyncio.sleep(5)
            assert (await registered())[0] == renewed
        await server.close()

    simulate(main)
