"""Certificates of a control plane node that are renewed on it, also by a program that is killed at every moment."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from espalier.simulator.hosts.folder import CERTIFICATES
from espalier.upgrader import certificates
from espalier.upgrader.contents import WORK
from espalier.upgrader.host import StepFailed
from espalier.upgrader.static_pods import RESTARTED
from tests.support.environments.simulated_node import NAME, OLD, Doom, Killed, Simulated, build_image, simulated
from tests.support.sampling import sampled

ISSUED = "issued {} times anew\n"
PODS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
SHARES = 3
any_share = pytest.mark.parametrize("share", sampled(range(SHARES), 0))


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Simulated]:
    """A node with an image of its own version."""
    with simulated(tmp_path) as made:
        build_image(tmp_path / "same", OLD)
        yield Simulated(made.root, tmp_path / "same", made.cluster)


def renew(node: Simulated, upgrade: str = "u1") -> str:
    return certificates.renew(node.node, OLD, upgrade)


def texts(node: Simulated) -> set[str]:
    return {(node.root / path).read_text() for path in CERTIFICATES}


def hashes(node: Simulated) -> dict[str, str]:
    """The hash of the manifest that each static pod runs."""
    path = "/api/v1/namespaces/kube-system/pods"
    return {
        pod["metadata"]["name"].removesuffix(f"-{NAME}"): pod["metadata"]["annotations"]["kubernetes.io/config.hash"]
        for pod in node.cluster.ask("GET", path)[1]["items"]
    }


def run_pods(node: Simulated) -> None:
    """Have the kubelet run the present manifests."""
    (node.root / "var/lib/simulated-node/state.json").unlink()
    node.host.boot()
    node.host.run(["systemctl", "restart", "kubelet.service"])
    state = node.root / "var/lib/simulated-node/state.json"
    state.write_text(state.read_text().replace('"pods"', '"before"'))
    node.host.run(["systemctl", "show", "kubelet.service"])


def test_certificates_are_renewed_and_pods_restarted(node: Simulated) -> None:
    run_pods(node)
    before, disk = hashes(node), node.disk()
    kubelet = (node.root / "etc/kubernetes/kubelet.conf").read_text()
    assert renew(node) == "kubeadm renewed 7 certificates and kubeconfigs, and 4 static pods run with them"
    assert texts(node) == {ISSUED.format(1)}
    after = hashes(node)
    assert sorted(before) == sorted(after) == sorted(PODS)
    assert all(before[name] != after[name] for name in PODS)
    assert (node.root / "etc/kubernetes/kubelet.conf").read_text() == kubelet
    manifests = {f"etc/kubernetes/manifests/{name}.yaml" for name in PODS}
    changed = {path for path in disk.keys() | node.disk().keys() if disk.get(path) != node.disk().get(path)}
    assert changed == {*CERTIFICATES, *manifests, "var/lib/simulated-node/state.json"}
    assert not (node.root / WORK.lstrip("/")).exists()


def test_renewal_that_ended_unseen_restarts_again(node: Simulated) -> None:
    run_pods(node)
    renew(node)
    once = hashes(node)
    renew(node)
    assert texts(node) == {ISSUED.format(2)}
    assert all(once[name] != again for name, again in hashes(node).items())


def test_failed_kubeadm_leaves_former_certificates(node: Simulated) -> None:
    run_pods(node)
    before = node.disk()
    node.fail(kubeadm="the disk is full")
    with pytest.raises(StepFailed, match=r"kubeadm certs renew all exited 1: .*the disk is full.*were restored"):
        renew(node)
    (node.root / "var/lib/simulated-node/faults.json").unlink()
    assert node.disk() == before


def test_pods_that_stay_down_get_former_certificates(node: Simulated) -> None:
    run_pods(node)
    before = {path: text for path, text in node.disk().items() if "simulated-node" not in path}
    node.fail(file=ISSUED.format(1))
    with pytest.raises(StepFailed, match=r"static pod .* does not come up .* former certificates were restored"):
        renew(node)
    assert {path: text for path, text in node.disk().items() if "simulated-node" not in path} == before


def test_unhealthy_control_plane_is_not_touched(node: Simulated) -> None:
    before = node.disk()
    node.api.ready = (500, "[-]etcd failed: reason withheld\nreadyz check failed\n")
    with pytest.raises(StepFailed, match="not healthy before the upgrade"):
        renew(node)
    assert node.disk() == before


def test_worker_has_no_certificates_to_renew(tmp_path: Path) -> None:
    with simulated(tmp_path, control_plane=False) as worker, pytest.raises(StepFailed, match="no static pod"):
        renew(worker)


def test_image_of_another_version_renews_nothing(tmp_path: Path) -> None:
    with simulated(tmp_path) as other, pytest.raises(StepFailed, match="the upgrader image has Kubernetes"):
        renew(other)


def test_abandoned_renewal_is_taken_back_by_the_next(node: Simulated) -> None:
    run_pods(node)
    rehearsal = Doom()
    copy = alive(node, "rehearsal", rehearsal)
    renew(copy)
    at = rehearsal.moments.index("after /usr/bin/kubeadm certs renew all")
    with pytest.raises(Killed):
        renew(alive(node, "victim", Doom(at)))
    victim = Simulated(node.root.parent / "victim", node.image, node.cluster)
    assert texts(victim) == {ISSUED.format(1)}
    renew(victim, "u2")
    assert texts(victim) == {ISSUED.format(1)}
    text = (victim.root / "etc/kubernetes/manifests/etcd.yaml").read_text()
    assert f'{RESTARTED}: "u2-' in text
    assert not (victim.root / WORK.lstrip("/")).exists()


def alive(node: Simulated, name: str, doom: Doom) -> Simulated:
    """The same node, with a copy of its disk, and static pods that run what is there."""
    root = node.root.parent / name
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(node.root, root, symlinks=True)
    copy = Simulated(root, node.image, node.cluster, doom)
    run_pods(copy)
    return copy


@any_share
def test_killed_renewal_is_completed_by_a_retry(node: Simulated, share: int) -> None:
    run_pods(node)
    rehearsal = Doom()
    renew(alive(node, "rehearsal", rehearsal))
    assert len(rehearsal.moments) > 50
    for at in range(share, len(rehearsal.moments), SHARES):
        victim = alive(node, "victim", Doom(at))
        with suppress(Killed):
            renew(victim)
        retried = Simulated(victim.root, node.image, node.cluster)
        renew(retried)
        (text,) = texts(retried)
        assert text in (ISSUED.format(1), ISSUED.format(2)), rehearsal.moments[at]
        assert not (retried.root / WORK.lstrip("/")).exists(), rehearsal.moments[at]
        assert not list(retried.root.glob("etc/kubernetes/**/.*")), rehearsal.moments[at]
