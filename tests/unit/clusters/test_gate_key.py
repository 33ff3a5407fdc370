"""The key for digests of credentials: who creates it, and when."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from espalier.clusters.act.secret_steps import make_gate_key
from espalier.runtime.controllers.outcome import Continue, Wait


class Scope(msgspec.Struct):
    credentials: tuple[str, ...] = ()
    gate_key: Any = None


@dataclass
class Writer:
    """Creates Secrets unless there is one already."""

    is_taken: bool = False
    created: int = 0

    async def create(self, _resource: object, body: object) -> object:
        self.created += 1
        return None if self.is_taken else body


@pytest.mark.parametrize(
    ("scope", "created"),
    [(Scope(), 0), (Scope(("vsphere",), "key"), 0), (Scope((), "key"), 0), (Scope(("vsphere",)), 1)],
)
async def test_the_key_is_created_once_there_are_credentials(scope: Scope, created: int) -> None:
    writer = Writer()
    ctx: Any = SimpleNamespace(scope=scope, tools=SimpleNamespace(writer=writer))
    assert await make_gate_key(ctx) == Continue()
    assert writer.created == created
    assert (ctx.scope.gate_key is not None) == bool(created or scope.gate_key)


async def test_key_that_somebody_else_created_is_waited_for() -> None:
    """Digests by another key would show a change of credentials that nobody made."""
    ctx: Any = SimpleNamespace(scope=Scope(("vsphere",)), tools=SimpleNamespace(writer=Writer(is_taken=True)))
    outcome = await make_gate_key(ctx)
    assert isinstance(outcome, Wait)
    assert outcome.reason == "WaitingForGateKey"
    assert ctx.scope.gate_key is None
