"""Remote tasks in workload clusters: few begin at once, never in the way, and a result is no older than it may be."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pytest

from espalier.api.core import CONFIG_MAP
from espalier.api.identity import ClusterIdentity
from espalier.api.resource import Key
from espalier.kube.client import Client
from espalier.kube.errors import NotFound
from espalier.kube.transports.wire import Request, Response, Stream
from espalier.runtime.virtual import Simulation, run
from espalier.runtime.workload_clusters import remote_tasks
from espalier.runtime.workload_clusters.remote import RemoteClients
from espalier.runtime.workload_clusters.remote_tasks import Failed, RemoteTask, RemoteTasks


def named(name: str) -> ClusterIdentity:
    return ClusterIdentity.of(Key("team-a", name))


GARDEN = named("garden")

QUICK, SLOW = remote_tasks.WAIT_SECONDS / 2, 3.0
MUTE = b"kubeconfig of a cluster that gives no answer"


class Workload:
    """A workload cluster that has nothing, and takes its time to say so."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.asked = 0
        self.at_once = 0
        self.most_at_once = 0

    async def request(self, request: Request) -> Response:
        self.asked += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.at_once -= 1
        status = b'{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}'
        return Response(404, status, {"content-type": "application/json"})

    async def stream(self, request: Request) -> Stream | Response:
        raise AssertionError("nobody watches here")

    async def close(self) -> None: ...


class Strange(Workload):
    """A workload cluster, or a program, with an error that nobody thought of."""

    async def request(self, request: Request) -> Response:
        self.asked += 1
        raise ZeroDivisionError


def look(subject: str = "cni-1", kubeconfig: bytes = b"kubeconfig") -> RemoteTask[str]:
    async def run(client: Client) -> str:
        try:
            await client.get(CONFIG_MAP, "cni", "kube-system")
        except NotFound:
            return f"no {subject}"
        raise AssertionError("there is nothing")

    return RemoteTask("look at", subject, kubeconfig, run)


def change(subject: str = "cni-1") -> RemoteTask[bool]:
    async def run(client: Client) -> bool:
        try:
            await client.get(CONFIG_MAP, "cni", "kube-system")
        except NotFound:
            return True
        raise AssertionError("there is nothing")

    return RemoteTask("change", subject, b"kubeconfig", run, writes=True)


def refused() -> RemoteTask[bool]:
    """A change that the workload cluster refuses."""

    async def run(client: Client) -> bool:
        await client.get(CONFIG_MAP, "cni", "kube-system")
        return True

    return RemoteTask("change", "cni-1", b"kubeconfig", run, writes=True)


def story(workload: Workload, tell: Callable[[RemoteTasks, list[Key]], Awaitable[None]]) -> None:
    async def main(_simulation: Simulation) -> None:
        mute = Workload(1000)
        remotes = RemoteClients(lambda kubeconfig: Client(mute if kubeconfig == MUTE else workload))
        made = RemoteTasks(remotes)
        done: list[Key] = []
        made.done.subscribe(done.append)
        running = asyncio.create_task(made.run())
        await tell(made, done)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert workload.at_once == 0, "what is under way ends with the manager"
        await remotes.close()

    run(main, epoch=datetime(2026, 1, 1, tzinfo=UTC), seed=1)


def test_quick_remote_task_is_awaited_without_event() -> None:
    async def tell(made: RemoteTasks, done: list[Key]) -> None:
        assert await made.send(GARDEN, look()) == "no cni-1"
        await asyncio.sleep(1)
        assert done == []

    story(Workload(QUICK), tell)


@pytest.mark.demand("L12")
def test_slow_remote_task_blocks_nobody() -> None:
    workload = Workload(SLOW)

    async def tell(made: RemoteTasks, done: list[Key]) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        assert await made.send(GARDEN, look()) is None
        assert loop.time() - began <= remote_tasks.WAIT_SECONDS
        began = loop.time()
        assert await made.send(GARDEN, look()) is None
        assert loop.time() == began, "only who sends a remote task waits a moment for it"
        await asyncio.sleep(5)
        assert done == [GARDEN.owner]
        assert await made.send(GARDEN, look()) == "no cni-1"
        assert workload.asked == 1

    story(workload, tell)


def test_result_is_kept_for_its_own_remote_task() -> None:
    workload = Workload(QUICK)

    async def tell(made: RemoteTasks, done: list[Key]) -> None:
        for _ in range(3):
            await made.send(GARDEN, look())
        assert workload.asked == 1
        assert await made.send(GARDEN, look("cni-2")) == "no cni-2"
        await made.send(GARDEN, look("cni-2", b"another"))
        assert workload.asked == 3
        await asyncio.sleep(remote_tasks.RESULT_TTL + 1)
        await made.send(GARDEN, look("cni-2", b"another"))
        assert workload.asked == 4

    story(workload, tell)


def test_write_discards_earlier_results() -> None:
    workload = Workload(QUICK)

    async def tell(made: RemoteTasks, done: list[Key]) -> None:
        await made.send(GARDEN, look())
        assert await made.send(GARDEN, change()) is True
        assert workload.asked == 2
        await made.send(GARDEN, look())
        assert workload.asked == 3
        await made.send(GARDEN, change())
        assert workload.asked == 4

    story(workload, tell)


def test_a_cluster_has_one_remote_task_at_a_time() -> None:
    workload = Workload(SLOW)

    async def tell(made: RemoteTasks, done: list[Key]) -> None:
        assert await made.send(GARDEN, change("cni-1")) is None
        assert await made.send(GARDEN, change("cni-2")) is None
        assert await made.send(GARDEN, look()) is None
        await asyncio.sleep(5)
        assert done == [GARDEN.owner]
        assert await made.send(GARDEN, change("cni-2")) is None
        await asyncio.sleep(5)
        assert await made.send(GARDEN, change("cni-2")) is True
        assert workload.most_at_once == 1

    story(workload, tell)


def test_failure_is_returned_until_the_next_attempt() -> None:
    workload = Workload(QUICK)

    async def tell(made: RemoteTasks, done: list[Key]) -> None:
        first = await made.send(GARDEN, refused())
        assert isinstance(first, Failed)
        assert isinstance(first.error, NotFound)
        workload.seconds = SLOW
        assert await made.send(GARDEN, refused()) == first, "the next attempt is under way"
        assert workload.asked == 2
        await asyncio.sleep(5)
        assert done == [GARDEN.owner]
        second = await made.send(GARDEN, refused())
        assert isinstance(second, Failed)
        assert second != first
        assert workload.asked == 2, "who comes for what became of it sends no other"

    story(workload, tell)


def test_a_remote_task_without_end_times_out() -> None:
    async def tell(made: RemoteTasks, done: list[Key]) -> None:
        assert await made.send(GARDEN, look()) is None
        await asyncio.sleep(remote_tasks.TASK_TIMEOUT + 1)
        assert isinstance(await made.send(GARDEN, look()), Failed)

    story(Workload(10_000), tell)


def test_unexpected_error_is_a_failure() -> None:
    async def tell(made: RemoteTasks, done: list[Key]) -> None:
        failure = await made.send(GARDEN, look())
        assert isinstance(failure, Failed)
        assert isinstance(failure.error, ZeroDivisionError)

    story(Strange(0), tell)


def test_few_remote_tasks_begin_at_once() -> None:
    workload, count = Workload(QUICK), 50

    async def tell(made: RemoteTasks, done: list[Key]) -> None:
        keys = [named(f"garden-{number}") for number in range(count)]
        await asyncio.gather(*(made.send(key, look()) for key in keys))
        await asyncio.sleep(20)
        assert workload.most_at_once == remote_tasks.MAX_STARTING
        assert workload.asked == count
        assert None not in [await made.send(key, look()) for key in keys]

    story(workload, tell)


def test_waiting_remote_task_is_not_awaited() -> None:
    """At start, all clusters are reconciled before the remote tasks that they began are through."""

    async def tell(sent: RemoteTasks, done: list[Key]) -> None:
        begin = asyncio.get_running_loop().time()
        first = [asyncio.create_task(sent.send(named(f"garden-{number}"), look())) for number in range(8)]
        for _ in range(2):  # they are sent, and begin
            await asyncio.sleep(0)
        for number in range(8, 100):
            assert await sent.send(named(f"garden-{number}"), look()) is None
        assert asyncio.get_running_loop().time() == begin
        assert await asyncio.gather(*first) == ["no cni-1"] * 8
        await asyncio.sleep(100 * QUICK)
        assert len(done) == 92
        assert await sent.send(named("garden-99"), look()) == "no cni-1"

    story(Workload(QUICK), tell)


def test_those_that_give_no_answer_make_way_for_next() -> None:
    count = 50

    async def tell(made: RemoteTasks, done: list[Key]) -> None:
        mute = [named(f"mute-{number}") for number in range(count)]
        before = [asyncio.create_task(made.send(key, look(kubeconfig=MUTE))) for key in mute]
        await asyncio.sleep(0)
        assert await made.send(GARDEN, look()) is None
        await asyncio.sleep(remote_tasks.WAIT_SECONDS * (count / remote_tasks.MAX_STARTING + 1))
        assert done == [GARDEN.owner]
        assert await asyncio.gather(*before) == [None] * count

    story(Workload(QUICK), tell)


def test_deleted_cluster_leaves_nothing_known() -> None:
    workload = Workload(QUICK)

    async def tell(made: RemoteTasks, done: list[Key]) -> None:
        await made.send(GARDEN, look())
        made.forget(Key("team-a", "garden"))
        workload.seconds = SLOW
        assert await made.send(GARDEN, look()) is None
        assert workload.asked == 2
        made.forget(Key("team-a", "garden"))
        await asyncio.sleep(0.01)
        assert workload.at_once == 0
        workload.seconds = QUICK
        assert await made.send(GARDEN, look()) == "no cni-1"

    story(workload, tell)


def in_parts(count: int, subject: str = "cni-1", seconds: float = 40.0) -> tuple[RemoteTask[bool], list[int]]:
    """A remote task of so many parts, each of which takes its time; and which were begun."""
    begun: list[int] = []

    def part(number: int) -> Callable[[Client], Awaitable[None]]:
        async def do(_: Client) -> None:
            begun.append(number)
            await asyncio.sleep(seconds)

        return do

    async def done(_: Client) -> bool:
        return True

    return RemoteTask(
        "install in", subject, b"kubeconfig", done, True, [part(number) for number in range(count)]
    ), begun


def test_long_remote_task_progresses_with_attempts() -> None:
    async def story() -> None:
        clients = RemoteClients(lambda _: Client(Workload(QUICK)))
        sent = RemoteTasks(clients)
        assert remote_tasks.TASK_TIMEOUT < 20 * 40.0
        remote_task, begun = in_parts(20)
        attempts = 0
        while (answer := await sent.send(GARDEN, remote_task)) is not True:
            attempts += isinstance(answer, Failed)
            await asyncio.sleep(60)
            assert len(begun) < 40
        assert sorted(set(begun)) == list(range(20))
        assert len(begun) <= 20 + 3, "what was done is not done again, but for what an attempt ended in"
        again, begun_again = in_parts(3, seconds=0.0)
        assert await sent.send(GARDEN, again) is True
        assert begun_again == [0, 1, 2], "another remote task of the kind begins at its beginning"
        await clients.close()

    run(lambda _: story(), epoch=datetime(2026, 1, 1, tzinfo=UTC), seed=1)


def test_old_task_is_done_again() -> None:
    async def story() -> None:
        clients = RemoteClients(lambda _: Client(Workload(QUICK)))
        sent = RemoteTasks(clients)
        remote_task, begun = in_parts(20)
        await sent.send(GARDEN, remote_task)
        await asyncio.sleep(remote_tasks.TASK_TIMEOUT + 1)
        assert begun == list(range(8))
        other, other_begun = in_parts(2, "cni-2", seconds=0.0)
        assert await sent.send(GARDEN, other) is True
        assert other_begun == [0, 1]
        remote_task, begun = in_parts(20)
        await sent.send(GARDEN, remote_task)
        await asyncio.sleep(remote_tasks.TASK_TIMEOUT + remote_tasks.PROGRESS_TTL + 1)
        del begun[:]
        await sent.send(GARDEN, remote_task)  # tells of the failure
        await sent.send(GARDEN, remote_task)
        await asyncio.sleep(1)
        assert begun == [0]
        sent.forget(Key("team-a", "garden"))
        await clients.close()

    run(lambda _: story(), epoch=datetime(2026, 1, 1, tzinfo=UTC), seed=1)
