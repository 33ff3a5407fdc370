"""A local environment that is killed in the middle of an upgrade in place goes on with it by itself."""

from __future__ import annotations

import asyncio
import os
import select
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import yaml

from espalier.cli.kit.connecting.home import Home
from espalier.simulator.pods.runtimes.program import ROOT
from tests.support.environments.environment import LocalEnvironment
from tests.support.waiting import eventually

pytestmark = pytest.mark.embedded

FLAGS = ("--boot-seconds", "0.05")
EXAMPLE = (Path(__file__).parents[2] / "examples" / "docker.yaml").read_text()
SECONDS = 300
"""More than a machine needs that does other things too."""
READY = '{.items[?(@.metadata.name=="garden")].status.conditions[?(@.type=="Ready")].message}'


@pytest.fixture
def env(tmp_path: Path) -> Iterator[LocalEnvironment]:
    """A running environment with a cluster of one control plane machine, to be upgraded in place."""
    env = LocalEnvironment(tmp_path)
    env.up(*FLAGS)
    assert env.apply(manifest("1.35"), "create", "--timeout", f"{SECONDS}s").code == 0
    yield env
    env.espalier("down")
    for process in processes(tmp_path):
        os.kill(process, signal.SIGKILL)


def manifest(version: str) -> str:
    cluster, datacenter = yaml.safe_load_all(EXAMPLE)
    how = {"upgradeRolloutStrategy": {"type": "InPlace"}}
    cluster["spec"] |= {"kubernetesVersion": version, "workerNodeGroupConfigurations": [{"name": "md-0", "count": 1}]}
    cluster["spec"]["controlPlaneConfiguration"] = {"count": 1, **how}
    return yaml.safe_dump_all([cluster, datacenter])


@pytest.mark.soak
def test_upgrade_survives_a_killed_environment(env: LocalEnvironment) -> None:
    told = env.apply(manifest("1.36"), "upgrade", "--no-wait")
    assert told.code == 0, told
    for _ in range(2):
        step = at_a_step(env)
        for process in step:
            os.kill(process, signal.SIGSTOP)  # so that it is not through, and what is left of it is seen
        pid = int(env.espalier("status", "-o", "jsonpath={.pid}").out)
        os.kill(pid, signal.SIGKILL)
        until_gone([pid])
        assert not all(map(has_ended, step)), "the step outlives the world, and could be at it twice"
        env.up(*FLAGS)
        until_gone(step)
    told = env.apply(manifest("1.36"), "upgrade", "--timeout", f"{SECONDS}s")
    assert told.code == 0, told
    assert "Kubernetes v1.36" in env.espalier("get", "clusters", "-o", f"jsonpath={READY}").out


def processes(home: Path) -> list[int]:
    """The processes in pods of this environment, found by the variable that they inherit.

    Not by their folder: a child is there before it is the program. Stopped then, it has no variable by which the next
    world would find it.
    """
    mark = os.fsencode(f"{ROOT}={Home(home).simulated / 'pods'}/")
    results = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if any(variable.startswith(mark) for variable in (place / "environ").read_bytes().split(b"\0")):
                results.append(int(place.name))
        except OSError:
            continue
    return results


def at_a_step(env: LocalEnvironment) -> list[int]:
    """The processes in pods, as soon as there are any. Looked for: no event of ours tells that a process has begun."""
    return asyncio.run(eventually(lambda: processes(env.home), within=SECONDS, every=0.01))


def has_ended(process: int, seconds: float = 0) -> bool:
    """True if it has; a killed process may wait for its parent to ask how it ended."""
    try:
        descriptor = os.pidfd_open(process)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], seconds)[0])
    finally:
        os.close(descriptor)


def until_gone(gone: Sequence[int]) -> None:
    """Return when none of these processes runs."""
    for process in gone:
        assert has_ended(process, SECONDS), f"process {process} still runs after {SECONDS} s"
