"""The program is killed at every moment at which it changes something, in turn; then it is run again."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from espalier.upgrader.host import StepFailed
from tests.support.environments.simulated_node import (
    CONFIGURATION,
    NEW,
    OLD,
    STEPS,
    Cluster,
    Doom,
    Killed,
    Simulated,
    new_programs,
    old_programs,
    report,
    simulated,
)
from tests.support.sampling import sampled

SHARES = 3
any_share = pytest.mark.parametrize("share", sampled(range(SHARES), 0))
"""Of the moments to die at, one share in every run, the others in `make soak`."""


class Scene:
    """A node at the beginning of a step, to be played from there again and again."""

    def __init__(self, node: Simulated, place: Path, step: str, shares: bool = False, **faults: object) -> None:
        self._node = node
        self._shares = shares
        self._place = place
        self._step = step
        for name in STEPS[: STEPS.index(step)]:
            node.step(name)
        if faults:
            node.fail(**faults)
        self._version = node.cluster.version

    def play(self, doom: Doom) -> Simulated:
        """The node as it was, its disk a copy of its own; that of an earlier play is not there any more."""
        root = self._place / "take"
        restore(self._node.root, root)
        cluster = self._node.cluster
        cluster.version = self._version
        reset(cluster, OLD if self._step != "done" else NEW)
        return self._alive(root, doom)

    def _alive(self, root: Path, doom: Doom) -> Simulated:
        node = Simulated(root, self._node.image, self._node.cluster, doom)
        node.files.shares = self._shares
        return node

    def deaths(self, share: int) -> Iterator[tuple[str, Simulated]]:
        """The node, killed at each moment of a share in turn, with what was going on."""
        rehearsal = Doom()
        node = self.play(rehearsal)
        with suppress(StepFailed):
            node.step(self._step)
        assert len(rehearsal.moments) > 10
        for at in range(share, len(rehearsal.moments), SHARES):
            victim = self.play(Doom(at))
            try:
                victim.step(self._step)
            except Killed as killed:
                yield str(killed), self._alive(victim.root, Doom())
            else:
                raise AssertionError(f"nothing was killed at moment {at}")


def restore(folder: Path, copy: Path) -> None:
    """Make a folder the copy of another one, files as links to the same: nobody may write to a file that is there.

    Of what is there already, only what differs is touched: to make and remove folders takes most of the time.
    """
    copy.mkdir(exist_ok=True)
    copy.chmod(folder.stat().st_mode)
    wanted = {entry.name: entry for entry in os.scandir(folder)}
    for entry in os.scandir(copy):
        expected = wanted.get(entry.name)
        if expected is not None and expected.is_dir() and entry.is_dir(follow_symlinks=False):
            continue
        if expected is not None and not expected.is_dir() and expected.inode() == entry.inode():
            del wanted[entry.name]
        elif entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry)
        else:
            os.unlink(entry)
    for name, entry in wanted.items():
        if entry.is_dir():
            restore(folder / name, copy / name)
        else:
            os.link(entry, copy / name, follow_symlinks=False)


def reset(cluster: Cluster, version: str) -> None:
    report(cluster, version)
    path = "/api/v1/namespaces/kube-system/configmaps/kubeadm-config"
    cluster.ask("PATCH", path, {"data": {"ClusterConfiguration": json.dumps(CONFIGURATION)}})


def assert_whole(node: Simulated, moment: str) -> None:
    """No program is a mixture of the old and the new, nor anything else."""
    old, new = old_programs(), new_programs()
    for path, text in node.installed().items():
        assert text in (old[path], new[path]), f"{path}, killed {moment}"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Simulated]:
    with simulated(tmp_path) as made:
        yield made


@pytest.mark.demand("U45")
@pytest.mark.parametrize(
    ("step", "shares"),
    sampled([*((step, False) for step in STEPS), ("cni-plugins", True), ("containerd", True)], 1, 3, 4, 6),
)
@any_share
def test_killed_step_finishes_when_run_again(
    node: Simulated, tmp_path: Path, step: str, shares: bool, share: int
) -> None:
    scene = Scene(node, tmp_path, step, shares)
    undisturbed = scene.play(Doom())
    undisturbed.step(step)
    end = undisturbed.disk()

    for moment, survivor in scene.deaths(share):
        assert_whole(survivor, moment)
        survivor.step(step)
        assert without_backups(survivor.disk()) == without_backups(end), moment


def without_backups(disk: dict[str, str]) -> dict[str, str]:
    """Each run of kubeadm leaves some: a node that was killed has more of them, until the last step."""
    return {path: content for path, content in disk.items() if not path.startswith("etc/kubernetes/tmp/kubeadm-")}


@pytest.mark.soak
@any_share
def test_backups_of_kubeadm_are_gone_at_the_end(node: Simulated, tmp_path: Path, share: int) -> None:
    for moment, survivor in Scene(node, tmp_path, "done").deaths(share):
        survivor.step("done")
        assert not survivor.files.names("/etc/kubernetes/tmp"), moment


@pytest.mark.demand("U68")
@any_share
def test_killed_step_gives_back_kubelet_that_fails(node: Simulated, tmp_path: Path, share: int) -> None:
    for moment, survivor in Scene(node, tmp_path, "kubelet", kubelet=[NEW]).deaths(share):
        assert_whole(survivor, moment)
        with pytest.raises(StepFailed, match="the old one was restored and runs"):
            survivor.step("kubelet")
        assert survivor.installed()["usr/bin/kubelet"] == old_programs()["usr/bin/kubelet"], moment
        assert survivor.host.running("kubelet") == OLD, moment
        survivor.fail()
        survivor.step("kubelet")
        survivor.step("done")
        assert survivor.installed() == new_programs(), moment
        assert survivor.host.running("kubelet") == survivor.reported() == NEW, moment


@pytest.mark.soak
@any_share
def test_failed_containerd_is_restored_after_a_kill(node: Simulated, tmp_path: Path, share: int) -> None:
    for moment, survivor in Scene(node, tmp_path, "containerd", containerd=["2.3.7"]).deaths(share):
        assert_whole(survivor, moment)
        with pytest.raises(StepFailed, match="the old one was restored and runs"):
            survivor.step("containerd")
        assert survivor.installed() == old_programs(), moment
        assert survivor.host.running("containerd") == "2.1.5", moment


@pytest.mark.soak
@any_share
def test_a_node_that_is_killed_twice_finishes_too(node: Simulated, tmp_path: Path, share: int) -> None:
    for moment, survivor in Scene(node, tmp_path, "containerd").deaths(share):
        survivor.doom.at = 7
        with suppress(Killed):  # unless so little was left that it finishes
            survivor.step("containerd")
        survivor.doom.at = -1
        assert_whole(survivor, moment)
        survivor.step("containerd")
        assert survivor.host.running("containerd") == "2.3.7", moment
