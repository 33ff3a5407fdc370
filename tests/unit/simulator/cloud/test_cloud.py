"""The simulated cloud: what it has, what it refuses, what it logs, and what outlives it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from espalier.api.cloud import (
    AnyCall,
    AnyItem,
    Bucket,
    CloudError,
    CloudRequest,
    Create,
    Credentials,
    Delete,
    ListItems,
    Network,
    Record,
    Refusal,
    SetRecord,
    VirtualMachine,
)
from espalier.runtime.clock import SystemClock
from espalier.runtime.virtual import Simulation
from espalier.simulator.cloud.journal import Journal, JournalBroken
from espalier.simulator.cloud.service import Cloud, Fault
from tests.support.environments.simulated_loop import simulate

ALICE, BOB = Credentials("alice", "a"), Credentials("bob", "b")
ACCOUNTS = {"alice": "a", "bob": "b"}


async def ask(cloud: Cloud, call: AnyCall, by: Credentials = ALICE) -> list[AnyItem]:
    return await cloud.call(CloudRequest(by, call, "tester"))


async def network(cloud: Cloud, by: Credentials = ALICE) -> str:
    (made,) = await ask(cloud, Create(Network(name="n", cidr="10.0.0.0/16", tags={"of": "x"})), by)
    return made.id


async def refused(cloud: Cloud, call: AnyCall, by: Credentials = ALICE) -> Refusal:
    with pytest.raises(CloudError) as error:
        await ask(cloud, call, by)
    return error.value.refusal


def machine(network: str) -> VirtualMachine:
    return VirtualMachine(name="m", network=network, size="s", image="i")


def test_a_machine_runs_after_its_boot() -> None:
    async def story(simulation: Simulation) -> None:
        cloud = Cloud(simulation.clock, ACCOUNTS, boot_seconds=30)
        await ask(cloud, Create(machine(await network(cloud))))
        states = []
        for _ in range(2):
            (item,) = await ask(cloud, ListItems("VirtualMachine"))
            assert isinstance(item, VirtualMachine)
            states.append(item.state)
            await asyncio.sleep(30)
        assert states == ["Pending", "Running"]

    simulate(story)


def test_accounts_neither_see_nor_delete_what_is_taken() -> None:
    async def story(simulation: Simulation) -> None:
        cloud = Cloud(simulation.clock, ACCOUNTS)
        made = await network(cloud)
        assert await ask(cloud, ListItems("Network"), BOB) == []
        assert await refused(cloud, Delete("Network", made), BOB) is Refusal.NOT_FOUND
        assert await refused(cloud, Create(machine(made)), BOB) is Refusal.INVALID
        for wrong in (Credentials("alice", "b"), Credentials("alice", ""), Credentials("eve", "")):
            assert await refused(cloud, ListItems("Network"), wrong) is Refusal.UNAUTHENTICATED

    simulate(story)


def test_impossible_requests_are_refused_and_logged() -> None:
    async def story(simulation: Simulation) -> None:
        cloud = Cloud(simulation.clock, ACCOUNTS)
        made = await network(cloud)
        await ask(cloud, Create(machine(made)))
        await ask(cloud, Create(Bucket(name="b")))
        cloud.inventory.quotas["alice", "VirtualMachine"] = 1
        assert await refused(cloud, Create(machine(made))) is Refusal.QUOTA_EXCEEDED
        assert await refused(cloud, Delete("Network", made)) is Refusal.IN_USE
        assert await refused(cloud, Create(Bucket(name="b")), BOB) is Refusal.NAME_TAKEN
        assert await refused(cloud, Create(Network(name="n", cidr="10.0.0.1/8"))) is Refusal.INVALID
        assert [entry.refusal for entry in cloud.log.writes()][3:] == [
            Refusal.QUOTA_EXCEEDED,
            Refusal.IN_USE,
            Refusal.NAME_TAKEN,
            Refusal.INVALID,
        ]
        assert {entry.caller for entry in cloud.log.entries} == {"tester"}

    simulate(story)


def test_a_lost_answer_is_of_a_request_that_was_done() -> None:
    async def story(simulation: Simulation) -> None:
        cloud = Cloud(simulation.clock, ACCOUNTS)
        cloud.faults = lambda _request: Fault(seconds=5, unanswered=True)
        assert await refused(cloud, Create(Network(name="n", cidr="10.0.0.0/8"))) is Refusal.UNAVAILABLE
        assert len(cloud.inventory.all("Network")) == 1
        assert simulation.clock.monotonic() == 5

    simulate(story)


def test_an_alias_answers_for_every_type_as_in_dns() -> None:
    async def story(simulation: Simulation) -> None:
        cloud = Cloud(simulation.clock, ACCOUNTS)
        await ask(cloud, SetRecord(Record(name="api.example", type="CNAME", values=["east.example"])))
        await ask(cloud, SetRecord(Record(name="note.example", type="TXT", values=["a note"])))
        record = cloud.inventory.resolve("api.example")
        assert record is not None
        assert record.values == ["east.example"]
        assert cloud.inventory.resolve("note.example") is None

    simulate(story)


async def test_a_journal_brings_back_inventory_and_log(tmp_path: Path) -> None:
    file = tmp_path / "cloud.jsonl"
    cloud = Cloud(SystemClock(), ACCOUNTS, journal=Journal(file))
    made = await network(cloud)
    await ask(cloud, Create(machine(made)))
    await ask(cloud, SetRecord(Record(name="api.example", values=["192.0.2.1"])))
    await refused(cloud, Delete("Network", made))
    gone = await network(cloud)
    await ask(cloud, Delete("Network", gone))
    with file.open("ab") as stream:
        stream.write(b'{"at": "cut o')
    again = Cloud(SystemClock(), ACCOUNTS, journal=Journal(file))
    for kind in ("Network", "VirtualMachine", "Record"):
        assert again.inventory.all(kind) == cloud.inventory.all(kind)
    assert again.log.entries == cloud.log.entries
    assert await network(again) == "net-3"


async def test_a_journal_that_is_none_is_named_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "cloud.jsonl"
    file.write_text("{}\n")
    with pytest.raises(JournalBroken, match=r"cloud.jsonl, line 1"):
        Cloud(SystemClock(), ACCOUNTS, journal=Journal(file))
