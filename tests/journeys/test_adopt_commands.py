"""`espalier adopt` as it is called: what it prints, in 80 columns, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from espalier.apiserver.storage.store import MemoryStore
from espalier.cli.kit import flags
from espalier.cli.kit.connecting import connection
from espalier.cli.kit.failures import Failure, Usage
from espalier.cli.kit.printing import output
from espalier.cli.management import adopt
from espalier.kube.client import Client
from tests.support.environments.managed_environment import GARDEN
from tests.support.environments.of_eks_anywhere import on_site

pytestmark = pytest.mark.embedded

COLUMNS = 80
Call = Callable[..., Awaitable[tuple[str, str]]]


def called(
    story: Callable[[Call], Awaitable[None]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A story with the commands on a management cluster of EKS Anywhere; each call returns what was printed."""

    async def on_client(client: Client, _store: MemoryStore) -> None:
        @asynccontextmanager
        async def connect(_flag: flags.Connection) -> AsyncIterator[connection.Connected]:
            yield connection.Connected(client, GARDEN.namespace)

        async def call(command: Any, **given: object) -> tuple[str, str]:
            unset: dict[str, Any] = {
                param.name: False if getattr(param, "is_flag", False) else None for param in command.params
            }
            of_connection = {name: unset.pop(name) for name in ("kubeconfig", "context", "namespace")}
            if "output_format" in unset:
                unset["output_format"] = ""
            await command.callback(**{**unset, **of_connection, **given})
            told = capsys.readouterr()
            return told.out, told.err

        monkeypatch.setattr(connection, "connect", connect)
        monkeypatch.setattr(output, "width", lambda *_: COLUMNS)
        await story(call)

    on_site(on_client)


def test_commands_show_take_over_and_give_back(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def story(call: Call) -> None:
        shown, _ = await call(adopt.adopt_plan)
        assert "default/garden" in shown
        assert "it is refused now:" in shown
        assert "--stop-controller" in shown
        named, _ = await call(adopt.adopt_plan, name="garden")
        assert "stays: nothing is written until a change asks for other machines" in named
        assert "criSocket" in named
        assert [line for line in (shown + named).splitlines() if len(line) > COLUMNS] == []
        with pytest.raises(Failure, match="replicas 1, allowed 0"):
            await call(adopt.adopt_apply, name="garden")
        _, taken = await call(adopt.adopt_apply, name="garden", stop_controller=True)
        assert "cluster default/garden is taken over" in taken
        again, _ = await call(adopt.adopt_plan, name="garden")
        assert "adopted" in again
        _, undone = await call(adopt.adopt_undo, of_all=True)
        assert "cluster default/garden is given back to EKS Anywhere" in undone
        assert "is scaled to 1" in undone

    called(story, monkeypatch, capsys)


def test_plan_for_programs_has_every_field(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    async def story(call: Call) -> None:
        text, _ = await call(adopt.adopt_plan, name="garden", output_format="json")
        facts = json.loads(text)
        (cluster,) = facts["clusters"]
        assert (cluster["name"], cluster["state"], cluster["blocks"]) == ("garden", "ready", [])
        assert {row["outcome"] for row in cluster["fields"]} == {"stays", "next change"}
        managers = {manager for of in cluster["managers"] for manager in of["fields"]}
        assert "eks-a-controller (Apply)" in managers
        assert {block["reason"] for block in facts["blocks"]} == {"ControllerRuns", "WebhooksConfigured"}

    called(story, monkeypatch, capsys)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"name": "garden", "of_all": True}, "NAME: found garden and --all; give only the name, or only --all"),
        ({}, "NAME: found nothing; give the name of a cluster, or --all"),
    ],
    ids=["both", "neither"],
)
def test_a_name_or_all_is_asked_for(
    given: dict[str, object], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def story(call: Call) -> None:
        with pytest.raises(Usage, match=f"^{message}$"):
            await call(adopt.adopt_apply, **given)

    called(story, monkeypatch, capsys)
