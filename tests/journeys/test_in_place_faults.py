"""The manager dies while a cluster is upgraded in place, after any write, or a write of it is lost: it ends as ever."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable

import pytest

from tests.conftest import EXPLORE
from tests.support.environments.in_place_environment import ready_cluster
from tests.support.environments.in_place_watcher import Watcher, finish, tell, undisturbed
from tests.support.environments.managed_environment import ManagedEnvironment
from tests.support.environments.recording import Recording
from tests.support.environments.upgraders import Upgraders
from tests.support.sampling import sampled
from tests.support.servers.faults import Far, Loss, Writes

pytestmark = pytest.mark.embedded

SHARES = 24
"""Of the moments to die at, one for every run, the others for `make soak`."""
OUTAGE = 100.0
"""Seconds: longer than an upgrader pod runs."""

EXPLORES = EXPLORE in os.environ
WITHOUT_MEANING = {"events", "daemonsets.apps", "deployments.apps", "replicasets.apps"}
"""Tables that nobody who upgrades reads."""


def moments(recording: Recording) -> list[int]:
    """After how many writes a manager dies: after each of its own; exploring, after each of anybody."""
    if not EXPLORES:
        return [*recording.marked]
    written = enumerate(recording.writes, start=1)
    return [0, *(number for number, write in written if write.change.table not in WITHOUT_MEANING)]


def each_goes_on(recording: Recording, chosen: Iterable[int], *, outage: float = 0.0) -> None:
    """Another manager comes after so many writes, which at first does not reach the workload cluster."""
    for number in chosen:
        far = Far()
        far.is_cut = bool(outage)

        async def story(env: ManagedEnvironment, _upgraders: Upgraders, watcher: Watcher, far: Far = far) -> None:
            asyncio.get_running_loop().call_later(outage, far.mend)
            await finish(env, watcher)

        try:
            tell(recording.after(number), story, wrap=far, seed=3)  # uids of the second environment are its own
        except BaseException as error:
            last = recording.writes[number - 1] if number else "another version was asked for"
            error.add_note(f"the manager died after write {number}: {last}")
            raise


@pytest.mark.demand("U15", "U68")
@pytest.mark.soak
@pytest.mark.parametrize("share", [0, *(pytest.param(share, marks=pytest.mark.soak) for share in range(1, SHARES))])
def test_killed_manager_is_succeeded_in_an_upgrade(share: int) -> None:
    recording = undisturbed(1, 1)
    assert len(moments(recording)) > 60
    each_goes_on(recording, moments(recording)[share::SHARES])


@pytest.mark.soak
@pytest.mark.parametrize("first", sampled([0, 30, 60], 0))
def test_the_same_for_three_nodes_and_two_workers(first: int) -> None:
    recording = undisturbed(3, 2)
    each_goes_on(recording, moments(recording)[first :: 1 if EXPLORES else 90])


@pytest.mark.soak
@pytest.mark.parametrize("first", sampled([0, 12, 24], 0))
def test_the_same_without_reaching_workload_cluster(first: int) -> None:
    recording = undisturbed(1, 1)
    each_goes_on(recording, moments(recording)[first :: 1 if EXPLORES else 36], outage=OUTAGE)


@pytest.mark.demand("U68")
@pytest.mark.soak
@pytest.mark.parametrize("loss", Loss)
@pytest.mark.parametrize(("machines", "begins"), sampled([((1, 1), 1), ((1, 1), 2), ((3, 2), 1)], 0))
def test_lost_write_or_answer_is_made_good(machines: tuple[int, int], begins: int, loss: Loss) -> None:
    """Of each upgrade every so manieth, beginning with another one each time; exploring, one alone."""
    start, count = ready_cluster(*machines), len(undisturbed(*machines).marked)
    every, step = (6, 2) if machines == (1, 1) else (40, 40)

    def upgrade(first: int) -> None:
        writes = Writes(loss)

        async def story(env: ManagedEnvironment, _upgraders: Upgraders, watcher: Watcher) -> None:
            writes.seen = 0
            writes.is_lost = lambda number: number == first if EXPLORES else number % every == first % every
            await env.change(kubernetesVersion="1.36")
            await finish(env, watcher)
            assert len(writes.lost) >= (1 if EXPLORES else count // every)

        try:
            tell(start, story, wrap=writes)
        except BaseException as error:
            error.add_note(f"lost were {writes.lost}")
            raise

    for first in range(begins, count) if EXPLORES else range(begins, every + 1, step):
        upgrade(first)
