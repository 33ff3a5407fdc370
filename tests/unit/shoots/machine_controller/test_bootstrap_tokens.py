"""Tokens with which machines join their shoot."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from espalier.api.core import SECRET, Secret
from espalier.api.gardener.extensions.operating_system_config import BOOTSTRAP_TOKEN
from espalier.apiserver.server import Server
from espalier.apiserver.storage.store import MemoryStore
from espalier.kube.client import Client
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.runtime.clock import LoopClock
from espalier.shoots.machine_controller.bootstrap_tokens import VALIDITY, BootstrapTokens

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
async def shoot() -> AsyncIterator[Client]:
    server = Server(MemoryStore(), now=lambda: NOW, random=random.Random(1))
    await server.start()
    yield Client(InProcessTransport(server))
    await server.close()


async def test_machine_joins_with_its_own_token(shoot: Client) -> None:
    clock = LoopClock(NOW)
    tokens = BootstrapTokens(shoot, clock)
    data = f"token: {BOOTSTRAP_TOKEN}".encode()
    given = {await tokens.inject(data, f"machine-{number}") for number in range(2)}
    known = [secret.decode(Secret).data for secret in (await shoot.list(SECRET, "kube-system")).items]
    assert len(given) == 2
    assert {b"token: %b.%b" % (item["token-id"], item["token-secret"]) for item in known} == given
    for element in known:
        left = datetime.fromisoformat(element["expiration"].decode()) - clock.now()
        assert VALIDITY * 0.9 < left <= VALIDITY


async def test_user_data_without_place_for_token_need_none(shoot: Client) -> None:
    assert await BootstrapTokens(shoot, LoopClock(NOW)).inject(b"{}", "machine") == b"{}"
    assert (await shoot.list(SECRET, "kube-system")).items == []
