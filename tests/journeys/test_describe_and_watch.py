"""The views of people who watch clusters: the tree with what blocks it, and lines that come as things change."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.environments.environment import PROGRAM, LocalEnvironment

pytestmark = pytest.mark.embedded

EXAMPLE = (Path(__file__).parents[2] / "examples" / "docker.yaml").read_text()


@contextmanager
def watching(env: LocalEnvironment, *arguments: str) -> Iterator[Iterator[str]]:
    """The lines of a command that goes on until it is stopped."""
    process = subprocess.Popen(
        [*PROGRAM, *arguments], stdout=subprocess.PIPE, text=True, env=env.environment, cwd=env.home
    )
    assert process.stdout is not None
    try:
        yield iter(process.stdout)
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


@pytest.mark.soak
def test_tree_of_a_healthy_cluster_is_short(env: LocalEnvironment) -> None:
    assert env.apply(EXAMPLE).code == 0
    result = env.espalier("describe", "cluster", "garden").out
    first, release, ready = result.splitlines()[:3]
    assert first == "Cluster   default/garden"
    assert re.fullmatch(r"Release   v0\.26\.0, Kubernetes 1\.35 \(support end(s|ed) on 2027-03-27\)", release)
    assert ready.startswith("Ready     True for ")
    assert "Blocked" not in result
    assert "2 Machines garden-md-0-" in result
    assert "Normal   Ready" in result
    long = env.espalier("describe", "cluster", "garden", "--all").out
    assert long.count("DockerMachine garden-") == 3
    assert "DockerMachineTemplate garden-control-plane-1" in long

    facts = json.loads(env.espalier("describe", "cluster", "garden", "-o", "json").out)
    assert facts["obstacle"] is None
    assert facts["supportEnds"] == "2027-03-27"
    assert facts["tree"]["children"][0]["kind"] == "Cluster"


@pytest.mark.soak
def test_blocking_problem_of_cluster_stands_on_top(env: LocalEnvironment) -> None:
    text = EXAMPLE.split("---")[0].replace("garden", "orchard")
    assert "kind: Cluster" in text
    env.send(text)
    waits = env.apply(text, "upgrade", "--keep-release")
    assert waits.code == 1  # it says why, so the controller has reported
    result = env.espalier("describe", "cluster", "orchard")
    top = result.out.split("\n\n")[0]
    assert "Ready     False" in top
    assert "MissingDependentObjects" in top
    assert "DockerDatacenterConfig orchard" in top
    assert env.espalier("delete", "cluster", "orchard").code == 0
    nobody = env.espalier("describe", "cluster", "orchard")
    assert (nobody.code, 'cluster "orchard" does not exist in namespace default' in nobody.err) == (1, True)


@pytest.mark.demand("L37")
@pytest.mark.soak
def test_watch_prints_changes_but_no_ageing(env: LocalEnvironment) -> None:
    with (
        watching(env, "get", "clusters", "-w") as lines,
        watching(env, "get", "clusters", "-w", "-o", "json") as documents,
    ):
        assert next(lines).split()[:2] == ["NAME", "VERSION"]
        assert next(lines).split()[0] in ("garden", "laptop")
        grown = EXAMPLE.replace("count: 2", "count: 3").replace("garden", "meadow")
        assert env.apply(grown).code == 0
        seen = []
        for line in lines:
            seen.append(line.split()[:-1])
            if seen[-1][-1] == "True" and seen[-1][0] == "meadow":
                break
        assert all(item != other for item, other in itertools.pairwise(seen))
        assert any('"name": "meadow"' in line for line in documents)
    assert env.espalier("delete", "cluster", "meadow").code == 0


def test_description_follows_a_cluster_to_its_end(env: LocalEnvironment) -> None:
    text = EXAMPLE.replace("garden", "heath")
    assert env.apply(text).code == 0
    with watching(env, "describe", "cluster", "heath", "--watch") as lines:
        assert any("3 nodes are ready" in line for line in lines)
        grown = text.replace("count: 2", "count: 3")
        assert env.espalier("upgrade", "cluster", "-f", "-", "--no-wait", stdin=grown).code == 0
        assert any("4 nodes are ready" in line for line in lines)
        assert env.espalier("delete", "cluster", "heath", "--no-wait").code == 0
        *_, last = (line for line in lines if line.strip())
        assert last == 'cluster "heath" is gone\n'
    refused = env.espalier("describe", "cluster", "heath", "--watch", "-o", "json")
    assert (refused.code, "found --watch and -o json" in refused.err) == (2, True)
    assert "does not exist in namespace default" in env.espalier("describe", "cluster", "heath", "-w").err


def test_one_object_is_of_one_namespace(env: LocalEnvironment) -> None:
    result = env.espalier("get", "clusters", "garden", "-A")
    assert (result.code, "use --namespace" in result.err) == (2, True)


@pytest.mark.soak
def test_steps_of_an_in_place_upgrade_are_shown(env: LocalEnvironment, tmp_path: Path) -> None:
    in_place = "upgradeRolloutStrategy:\n      type: InPlace"
    old = EXAMPLE.replace("garden", "terrace").replace("count: 1\n", f"count: 1\n    {in_place}\n")
    old = old.replace("- count: 2\n", f"- count: 2\n    {in_place}\n")
    assert env.apply(old, "create").code == 0
    manifest = tmp_path / "new.yaml"
    manifest.write_text(old.replace('"1.35"', '"1.36"'))
    command = [*PROGRAM, "upgrade", "cluster", "-f", str(manifest)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env.environment, cwd=env.home)
    assert process.stderr is not None
    with process, process.stderr as lines:
        shown: list[str] = []
        described = ""
        for line in lines:
            shown.append(line.strip())
            if "step " in line and not described:
                described = env.espalier("describe", "cluster", "terrace").out
        assert process.wait() == 0
    steps = [line for line in shown if re.match(r"\d of 3 nodes are upgraded; step \d of 8 on node terrace-", line)]
    assert len(steps) > 3
    assert all("so far; about" in line for line in steps)
    assert re.search(r"^Upgrade   \d of 3 nodes are upgraded; ", described, re.MULTILINE)
    assert re.search(r"─ NodeUpgrade terrace-\S+-node-upgrader +v1\.36", described)
    assert re.search(r"Machines? terrace-.* v1\.35", described)
    assert "Blocked" not in described
    assert env.espalier("delete", "cluster", "terrace").code == 0
