"""An attempt whose resource was changed, or made anew, since it was observed; one that was ended, and writes still."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, cast

import pytest

from espalier.api.core import CUSTOM_RESOURCE_DEFINITION, NAMESPACE
from espalier.api.definitions.crd import crd_of
from espalier.api.gardener.extensions.infrastructure import Infrastructure
from espalier.api.gardener.vocabulary import metadata_keys as keys
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import Conflict
from espalier.kube.transports.wire import Request
from espalier.runtime.clock import SystemClock
from espalier.runtime.controllers.outcome import Fault
from espalier.runtime.controllers.writer import Writer
from espalier.runtime.leadership.fencing import Fenced
from espalier.shoots.extension import steps
from espalier.shoots.extension.actuator import Result
from espalier.shoots.extension.attempt import Attempt, AttemptTools, Extension
from espalier.shoots.extension.errors import Stopped
from espalier.shoots.extension.guard import Guard, GuardFence, Verdict
from tests.support.servers.embedded_server import client_of, new_server

KIND = Infrastructure.resource
PLACE = {"name": "pond", "namespace": "shoot--garden--rose"}


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    server = new_server()
    await server.start()
    client = client_of(server)
    await client.create(CUSTOM_RESOURCE_DEFINITION, crd_of(Infrastructure))
    await client.create(NAMESPACE, {"metadata": {"name": PLACE["namespace"]}})
    await client.create(KIND, {"metadata": PLACE, "spec": {"type": "garden"}})
    yield client
    await server.close()


async def observed(client: Client) -> Attempt[Any]:
    """An attempt at the resource as it is now."""
    writer = Writer(client, {})
    extension: Extension[Any] = Extension(KIND, "garden", cast(Any, None))
    tools: AttemptTools[Any] = AttemptTools(extension, cast(Any, {}), writer, cast(Any, None), SystemClock(), 60)
    return Attempt(tools, await client.get(KIND, PLACE["name"], PLACE["namespace"]))


async def change(client: Client, patch: dict[str, Any], subresource: str | None = None) -> None:
    merge = PatchType.MERGE
    await client.patch(KIND, PLACE["name"], PLACE["namespace"], patch=patch, type=merge, subresource=subresource)


BEGUN = {"lastOperation": {"type": "Reconcile", "state": "Processing"}}


@pytest.mark.parametrize("present", [{}, BEGUN])
async def test_reconcile_does_not_begin_after_migration(client: Client, present: dict[str, Any]) -> None:
    """A cache that was cut off shows the resource as it was; also where the status need not be written."""
    await change(client, {"status": present}, "status")
    attempt = await observed(client)
    await change(client, {"metadata": {"annotations": {keys.OPERATION: keys.MIGRATE}}})
    with pytest.raises(Conflict):
        await attempt.write(BEGUN, is_first=True)


async def test_recreated_resource_gets_nothing_of_the_former(client: Client) -> None:
    attempt = await observed(client)
    await client.delete(KIND, PLACE["name"], PLACE["namespace"])
    await client.create(KIND, {"metadata": PLACE, "spec": {"type": "garden"}})
    with pytest.raises(Conflict, match="is gone or was recreated"):
        await attempt.write({"state": {"pond": 1}})
    assert "status" not in (await client.get(KIND, PLACE["name"], PLACE["namespace"])).tree


def test_late_write_of_an_ended_operation_is_not_sent() -> None:
    verdicts = [Verdict(math.inf)]
    fence = GuardFence(Guard(lambda: verdicts[-1], SystemClock(), 60))
    patch, get = Request("PATCH", "/api/v1/secrets/x"), Request("GET", "/api/v1/secrets/x")
    fence.require_open(patch)
    verdicts.append(Verdict(0, "LeaseExpired", "the lease is over"))
    fence.require_open(get)
    with pytest.raises(Fenced, match="PATCH /api/v1/secrets/x was not sent: the operation was stopped"):
        fence.require_open(patch)


async def test_operation_with_refused_call_has_not_succeeded() -> None:
    """It would be told as done, with a state that lacks what the call was to make."""
    verdicts = [Verdict(60), Verdict(0, "LeaseExpired", "the lease is over")]
    guard = Guard(lambda: verdicts.pop(0), SystemClock(), 60)

    async def call() -> None:
        raise AssertionError("the provider is not called")

    async def work() -> str:
        with suppress(Stopped):
            await guard.call(call)
        return "done"

    with pytest.raises(Stopped, match="the lease is over"):
        await guard.run(work())


class SavesState:
    """An actuator whose author saves a state and declared none."""

    async def reconcile(self, _request: object) -> Result[Any]:
        return Result(state={"pond": 7})


async def test_a_state_that_is_not_declared_is_a_fault(client: Client) -> None:
    """Without it, the first move makes everything anew: so it is not dropped."""
    attempt = await observed(client)
    extension = replace(attempt.tools.extension, actuator=cast(Any, SavesState()))
    attempt.tools, attempt.cluster = replace(attempt.tools, extension=extension), ""
    outcome = await steps.reconcile(attempt)
    assert isinstance(outcome, Fault)
    assert outcome.message == "TypeError in extension garden-infrastructure; see its log"
    assert attempt.status == {}
