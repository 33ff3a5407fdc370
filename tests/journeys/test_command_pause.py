"""Commands write the objects of a change under a pause, which outlives them."""

from __future__ import annotations

import asyncio
import copy
import random
from collections.abc import Sequence

import pytest

from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import PAUSED_ANNOTATION, PAUSED_BY_COMMAND
from espalier.api.meta import Tree
from espalier.cli.clusters import command_pause
from espalier.cli.clusters.manifests import documents
from espalier.cli.kit.failures import Failure
from espalier.clusters.observe.settling import SETTLE_TIME
from espalier.kube.client import Client
from espalier.kube.errors import Forbidden, Unreachable
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.kube.transports.wire import Request, Response, Stream, Transport
from espalier.providers.kinds import CATALOG
from tests.support.environments.managed_environment import CALM, ManagedEnvironment
from tests.support.histories.changes_in_parts import CHANGES, VINEYARD, Made, change, pause, tell, warnings
from tests.support.sampling import sampled

pytestmark = pytest.mark.embedded


class Slow:
    """A transport that takes `seconds` for each write, and at the write `last` dies, or fails if it `fails`."""

    def __init__(self, transport: Transport, seconds: float, last: int = 99, *, fails: bool = False) -> None:
        self._transport, self._seconds, self._last, self._fails = transport, seconds, last, fails
        self.died = asyncio.Event()

    async def request(self, request: Request) -> Response:
        if request.method != "GET" and "dryRun" not in request.query:
            self._last -= 1
            if self._last < 0:
                if self._fails:
                    raise Unreachable("the network is gone")
                self.died.set()
                await asyncio.Event().wait()
            await asyncio.sleep(self._seconds)
        return await self._transport.request(request)

    async def stream(self, request: Request) -> Stream | Response:
        return await self._transport.stream(request)

    async def close(self) -> None:
        await self._transport.close()


async def command(
    env: ManagedEnvironment, trees: Sequence[Tree], *, seconds: float = 0.1, last: int = 99, fails: bool = False
) -> None:
    """Write the objects as `espalier upgrade cluster` does. With `last`, the command dies before that write."""
    transport = Slow(InProcessTransport(env.server), seconds, last, fails=fails)
    prepared = [
        (CATALOG.resource_of(tree["apiVersion"], tree["kind"]), copy.deepcopy(tree))
        for tree in sorted(trees, key=lambda tree: tree["kind"] == "Cluster")
    ]
    client = Client(transport, user_agent="espalier", field_manager="espalier")
    writing = asyncio.create_task(documents.apply_all(client, prepared, dry_run=False))
    dying = asyncio.create_task(transport.died.wait())
    await asyncio.wait({writing, dying}, return_when=asyncio.FIRST_COMPLETED)
    dying.cancel()
    if transport.died.is_set():
        writing.cancel()
        await asyncio.wait({writing})
    else:
        await writing


async def messages(env: ManagedEnvironment) -> dict[str, tuple[str, str, str]]:
    """Status, reason and message of the conditions."""
    cluster = (await env.client.get(Cluster.resource, VINEYARD.name, VINEYARD.namespace)).decode(Cluster)
    return {
        condition.type: (condition.status, condition.reason, condition.message)
        for condition in cluster.status.conditions
    }


async def paused_by(env: ManagedEnvironment) -> str:
    cluster = await env.client.get(Cluster.resource, VINEYARD.name, VINEYARD.namespace)
    return cluster.metadata.annotations.get(PAUSED_ANNOTATION, "")


def edit(trees: Sequence[Tree], number: int) -> None:
    trees[0]["spec"]["workerNodeGroupConfigurations"][1]["labels"] = {"row": f"row-{number}"}
    trees[-1]["spec"]["memoryMiB"] = 8192 + 256 * number


def test_a_slow_command_makes_one_rollout() -> None:
    async def story(env: ManagedEnvironment, made: Made, trees: list[Tree]) -> None:
        before = await warnings(env)
        edit(trees, 1)
        await command(env, trees, seconds=10 * SETTLE_TIME)
        status, reason, _ = (await messages(env))["Ready"]
        assert (status, reason) == ("False", "ChangeBeingWritten"), "who waits for Ready now does not see an old one"
        await asyncio.sleep(CALM)
        await env.until_ready(VINEYARD)
        assert made.coming == {"vineyard-md-1": 1}
        assert await paused_by(env) == ""
        assert await warnings(env) == before

    tell(story)


WAY_OUT = (
    "`espalier upgrade cluster` has paused the cluster while it writes a change; if it was ended, run it again, or "
    f"remove annotation {PAUSED_ANNOTATION}, to apply what it has written so far"
)


@pytest.mark.parametrize("last", sampled(range(1, 7), 4))
def test_killed_command_goes_on_when_run_again(last: int) -> None:
    """Its writes are the pause, five objects, and the end of the pause."""

    async def story(env: ManagedEnvironment, made: Made, trees: list[Tree]) -> None:
        edit(trees, last)
        await command(env, trees, last=last)
        await asyncio.sleep(CALM)
        assert made.coming == {}
        results = await messages(env)
        assert WAY_OUT in results["Synced"][2]
        is_begun = last > 4  # the fourth object is the first that differs
        assert results["Ready"][:2] == (("False", "ChangeBeingWritten") if is_begun else ("True", "ClusterReady"))
        assert not is_begun or results["Ready"][2].startswith(WAY_OUT)
        await command(env, trees)
        await asyncio.sleep(CALM)
        await env.until_ready(VINEYARD)
        assert made.coming == {"vineyard-md-1": 1}
        assert await paused_by(env) == ""

    tell(story)


@pytest.mark.soak
def test_pause_of_killed_command_can_be_ended_by_hand() -> None:
    async def story(env: ManagedEnvironment, made: Made, trees: list[Tree]) -> None:
        edit(trees, 1)
        await command(env, trees, last=5)
        await asyncio.sleep(CALM)
        await pause(env, None)
        await asyncio.sleep(CALM)
        assert (await messages(env))["Ready"][:2] == ("True", "ClusterReady")
        assert made.coming == {"vineyard-md-1": 1}, "what was written so far"

    tell(story)


@pytest.mark.parametrize("value", sampled(["true", ""], 0))
def test_a_pause_of_somebody_else_is_never_ended(value: str) -> None:
    async def story(env: ManagedEnvironment, made: Made, trees: list[Tree]) -> None:
        await pause(env, value)
        edit(trees, 1)
        await command(env, trees)
        assert await paused_by(env) == value
        await pause(env, None)
        edit(trees, 2)
        writing = asyncio.create_task(command(env, trees, seconds=1))
        await asyncio.sleep(2.5)
        assert (await paused_by(env)).startswith(PAUSED_BY_COMMAND)
        await pause(env, value)
        await writing
        assert await paused_by(env) == value
        await asyncio.sleep(CALM)
        assert made.coming == {}

    tell(story)


def test_a_command_that_fails_says_what_it_left() -> None:
    async def story(env: ManagedEnvironment, made: Made, trees: list[Tree]) -> None:
        edit(trees, 1)
        with pytest.raises(Failure, match=r"4 of the objects .* run the same command again, or remove annotation"):
            await command(env, trees, last=5, fails=True)
        await asyncio.sleep(CALM)
        assert made.coming == {}

    tell(story)


def test_a_second_command_is_refused_while_one_writes() -> None:
    """However long that takes: it renews its pause."""

    async def story(env: ManagedEnvironment, made: Made, trees: list[Tree]) -> None:
        edit(trees, 1)
        first = asyncio.create_task(command(env, trees, seconds=3))
        await asyncio.sleep(4)  # its pause took 3 s
        for _ in range(2):
            await asyncio.sleep(1)
            with pytest.raises(Failure, match=r"another .* is writing a change; .* its pause is taken over 10 s later"):
                await command(env, trees)
        assert not first.done()
        await first
        assert await paused_by(env) == ""
        await asyncio.sleep(CALM)
        assert made.coming == {"vineyard-md-1": 1}

    tell(story)


def test_a_command_that_lost_its_pause_stops_writing() -> None:
    async def story(env: ManagedEnvironment, _made: Made, _trees: list[Tree]) -> None:
        client = Client(InProcessTransport(env.server), user_agent="espalier", field_manager="espalier")

        async def late() -> None:
            async with command_pause.paused(client, VINEYARD) as pausing:
                await pause(env, f"{PAUSED_BY_COMMAND}other")
                await asyncio.sleep(2 * command_pause.RENEWED_EVERY)
                await pausing.write(asyncio.sleep(0))

        with pytest.raises(Failure, match=r"taken over the pause .*; 0 of the objects were written"):
            await late()
        assert await paused_by(env) == f"{PAUSED_BY_COMMAND}other"

    tell(story)


@pytest.mark.parametrize("writes", [0, 1])
@pytest.mark.parametrize("error", [RuntimeError, OSError, asyncio.CancelledError, KeyboardInterrupt, SystemExit])
def test_every_way_out_ends_a_pause_without_writes(error: type[BaseException], writes: int) -> None:
    async def story(env: ManagedEnvironment, _made: Made, _trees: list[Tree]) -> None:
        told: list[str] = []
        client = Client(InProcessTransport(env.server), user_agent="espalier", field_manager="espalier")

        async def leave() -> None:
            async with command_pause.paused(client, VINEYARD) as pausing:
                for _ in range(writes):
                    await pausing.write(asyncio.sleep(0))
                raise error

        with client.warning(told.append), pytest.raises(error):
            await leave()
        assert (await paused_by(env) == "") is (writes == 0)
        assert ["1 of the objects were written" in item for item in told] == [True] * writes

    tell(story)


def test_a_write_without_an_answer_keeps_the_pause() -> None:
    """The server may have done it."""

    async def story(env: ManagedEnvironment, _made: Made, _trees: list[Tree]) -> None:
        client = Client(InProcessTransport(env.server), user_agent="espalier", field_manager="espalier")

        async def lose() -> None:
            raise Unreachable("the network is gone")

        async def write() -> None:
            async with command_pause.paused(client, VINEYARD) as pausing:
                await pausing.write(lose())

        with pytest.raises(Failure, match=r"0 of the objects were written; cluster .* is paused"):
            await write()
        assert (await paused_by(env)).startswith(PAUSED_BY_COMMAND)

    tell(story)


@pytest.mark.soak
def test_a_change_of_one_object_needs_no_pause() -> None:
    async def story(env: ManagedEnvironment, made: Made, trees: list[Tree]) -> None:
        seen: list[str] = []
        env.clusters.subscribe(
            lambda _old, new, _first: (
                seen.append(new.metadata.annotations.get(PAUSED_ANNOTATION, ""))
                if new and new.key == VINEYARD
                else None
            )
        )
        trees[0]["spec"]["workerNodeGroupConfigurations"][1]["count"] = 2
        await command(env, trees)
        await asyncio.sleep(CALM)
        assert set(seen) == {""}
        assert made.coming == {"vineyard-md-1": 1}

    tell(story)


@pytest.mark.soak
def test_pause_of_a_command_permits_no_fixed_field() -> None:
    """A user's own pause does: he may move the record of a cluster."""

    async def story(env: ManagedEnvironment, _made: Made, trees: list[Tree]) -> None:
        await pause(env, f"{PAUSED_BY_COMMAND}1234")
        trees[0]["spec"]["controlPlaneConfiguration"]["endpoint"]["host"] = "192.0.2.99"
        with pytest.raises(Forbidden, match=r"endpoint: it can't be changed"):
            await change(env, trees, 2, 0)

    tell(story)


@pytest.mark.soak
@pytest.mark.parametrize("seed", sampled(range(4), 0))
def test_plan_is_carried_out_by_a_slow_command(seed: int) -> None:
    """Changes of one to five objects; some commands die at one of their writes, and are run again much later."""
    rng = random.Random(seed)

    async def story(env: ManagedEnvironment, made: Made, trees: list[Tree]) -> None:
        before = await warnings(env)
        for number in range(30):
            for tree in rng.sample(trees, rng.randint(1, 5)):
                CHANGES[tree["kind"]](tree["spec"], number)
            preview = await env.preview(VINEYARD, copy.deepcopy(trees))
            made.begin()
            seconds = rng.choice([0.0, 1.0, SETTLE_TIME, 20 * SETTLE_TIME])
            if rng.random() < 0.5:
                await command(env, trees, seconds=seconds, last=rng.randint(1, 6))
                await asyncio.sleep(rng.choice([0.0, SETTLE_TIME, CALM]))
            await command(env, trees, seconds=seconds)
            await asyncio.sleep(CALM)
            await env.until_ready(VINEYARD)
            assert made.coming == {group.name: group.coming for group in preview.groups if group.coming}
            assert made.going == {group.name: len(group.going) for group in preview.groups if group.going}
            assert await paused_by(env) == ""
        assert await warnings(env) == before

    tell(story)
