"""The steps of a node's upgrade, undisturbed, and what they refuse."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from espalier.api.version_matrix import KUBERNETES, KubernetesMinor, numbers
from espalier.simulator.hosts.static_pods import COMPONENTS
from espalier.upgrader import checks, services, steps
from espalier.upgrader.contents import WORK, ImageFile, parse_version
from espalier.upgrader.host import NotCopied, Result, StepFailed
from espalier.upgrader.services import show
from tests.support.environments.simulated_node import (
    NEW,
    OLD,
    STEPS,
    Simulated,
    build_image,
    new_programs,
    old_programs,
    report,
    simulated,
)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Simulated]:
    with simulated(tmp_path) as made:
        yield made


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Simulated]:
    with simulated(tmp_path, control_plane=False) as made:
        yield made


def upgrade(node: Simulated) -> list[str]:
    return [node.step(name) for name in STEPS]


def configuration(node: Simulated) -> Any:
    _, result = node.cluster.ask("GET", "/api/v1/namespaces/kube-system/configmaps/kubeadm-config")
    return json.loads(result["data"]["ClusterConfiguration"])


@pytest.mark.demand("U2", "U39", "U40")
def test_a_control_plane_node_is_upgraded_in_place(node: Simulated) -> None:
    by_hand = node.root / "etc/sysctl.d/99-ours.conf"
    by_hand.parent.mkdir(parents=True)
    by_hand.write_text("vm.swappiness = 1\n")

    upgrade(node)

    assert node.installed() == new_programs()
    assert node.host.running("kubelet") == NEW
    assert node.host.running("containerd") == "2.3.7"
    assert node.reported() == NEW
    assert by_hand.read_text() == "vm.swappiness = 1\n"
    assert f"kube-apiserver:{NEW}" in (node.root / "etc/kubernetes/manifests/kube-apiserver.yaml").read_text()
    assert configuration(node)["kubernetesVersion"] == NEW


@pytest.mark.demand("U2", "U75")
def test_upgraded_parts_alone_change_on_the_disk(node: Simulated) -> None:
    before = node.disk()

    upgrade(node)

    changed = {path for path in before.keys() | node.disk().keys() if before.get(path) != node.disk().get(path)}
    ours = {f"etc/kubernetes/manifests/{name}.yaml" for name in COMPONENTS}
    assert changed == set(new_programs()) | ours | {"var/lib/simulated-node/state.json"}
    assert not (node.root / WORK.lstrip("/")).exists()


@pytest.mark.demand("U45")
def test_each_step_may_run_twice(node: Simulated) -> None:
    for name in STEPS:
        node.step(name)
        before = node.disk()
        ran = len(node.commands.ran)
        if name == "done":
            continue
        node.step(name)
        assert node.disk() == before
        assert not [command for command in node.commands.ran[ran:] if "restart" in command or "upgrade" in command]


@pytest.mark.demand("U39")
def test_worker_is_upgraded_with_kubeadm_upgrade_node(worker: Simulated) -> None:
    upgrade(worker)

    assert [command for command in worker.commands.ran if "kubeadm" in command] == [
        "/usr/bin/kubeadm upgrade node --ignore-preflight-errors=CoreDNSUnsupportedPlugins,CoreDNSMigration"
    ]
    assert worker.installed() == new_programs()


@pytest.mark.demand("U39")
def test_coredns_is_left_to_cluster_api(node: Simulated) -> None:
    node.step("copy")
    node.step("kubeadm")

    assert [command for command in node.commands.ran if "kubeadm upgrade" in command] == [
        f"/usr/bin/kubeadm upgrade apply {NEW} --yes "
        "--ignore-preflight-errors=CoreDNSUnsupportedPlugins,CoreDNSMigration --skip-phases=addon/coredns"
    ]


def test_kubeadm_is_allowed_version_of_distributor(tmp_path: Path) -> None:
    with simulated(tmp_path) as node:
        version = f"{NEW}-eks-1-36-1"
        build_image(tmp_path / "distributed", version)
        distributed = Simulated(node.root, tmp_path / "distributed", node.cluster)
        distributed.step("copy")
        steps.kubeadm(distributed.node, version, steps.KubeadmOptions(steps.FIRST), distributed.changes)

        [command] = [command for command in distributed.commands.ran if "kubeadm upgrade" in command]
        assert f"upgrade apply {version} --yes --allow-experimental-upgrades --force " in command


def test_kubeadm_gets_the_patches_of_the_node(worker: Simulated) -> None:
    worker.step("copy")

    how = steps.KubeadmOptions(steps.WORKER, ["Swap"], "/etc/kubernetes/patches")
    steps.kubeadm(worker.node, NEW, how, worker.changes)

    assert [command for command in worker.commands.ran if "kubeadm" in command] == [
        "/usr/bin/kubeadm upgrade node --ignore-preflight-errors=CoreDNSUnsupportedPlugins,CoreDNSMigration,Swap "
        "--patches=/etc/kubernetes/patches"
    ]


def ran_kubeadm(node: Simulated) -> list[str]:
    return [" ".join(command.split()[1:3]) for command in node.commands.ran if "kubeadm upgrade" in command]


def version_of_the_api_server(node: Simulated) -> str:
    text = (node.root / "etc/kubernetes/manifests/kube-apiserver.yaml").read_text()
    return text.partition("kube-apiserver:")[2].split()[0]


def configure(node: Simulated, version: str) -> None:
    """Another node of the control plane has applied this version."""
    path = "/api/v1/namespaces/kube-system/configmaps/kubeadm-config"
    text = json.dumps(configuration(node) | {"kubernetesVersion": version})
    node.cluster.ask("PATCH", path, {"data": {"ClusterConfiguration": text}})


@pytest.mark.demand("U39")
def test_other_node_follows_the_applied_version(node: Simulated) -> None:
    configure(node, NEW)
    node.step("copy")

    steps.kubeadm(node.node, NEW, steps.KubeadmOptions(steps.OTHER), node.changes)

    assert ran_kubeadm(node) == ["upgrade node"]
    assert version_of_the_api_server(node) == NEW


def test_first_applies_again_what_it_was_broken_off_at(node: Simulated) -> None:
    """kubeadm-config has the version before kubeadm has done all that comes after."""
    configure(node, NEW)
    node.step("copy")

    steps.kubeadm(node.node, NEW, steps.KubeadmOptions(steps.FIRST), node.changes)

    assert ran_kubeadm(node) == ["upgrade apply"]


@pytest.mark.demand("U75")
def test_backups_of_kubeadm_go_and_earlier_stay(node: Simulated) -> None:
    earlier = node.root / "etc/kubernetes/tmp/kubeadm-backup-etcd-2025-01-01/member/snap/db"
    by_hand = node.root / "etc/kubernetes/tmp/notes.txt"
    for file in (earlier, by_hand):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("kept")
    for name in STEPS[:-1]:
        node.step(name)
    backups = [name for name in node.files.names("/etc/kubernetes/tmp") if "backup" in name]
    assert len(backups) == 3, "manifests and etcd of this upgrade, and an earlier one"
    (node.root / "etc/kubernetes/tmp/meanwhile").mkdir()

    node.step("done")

    left = ["kubeadm-backup-etcd-2025-01-01", "meanwhile", "notes.txt"]
    assert node.files.names("/etc/kubernetes/tmp") == left, "what kubeadm did not make is not taken away"
    assert earlier.read_text() == "kept"


def test_backups_of_a_failed_attempt_go_with_success(node: Simulated) -> None:
    folder = node.root / "etc/kubernetes/tmp"
    for attempt in ("kubeadm-backup-1", "kubeadm-backup-2"):
        steps._record_backups(node.node)
        (folder / attempt).mkdir(parents=True)

    steps._remove_backups(node.node)

    assert node.files.names("/etc/kubernetes/tmp") == []


def test_backups_stay_without_a_note_of_before(node: Simulated) -> None:
    (node.root / "etc/kubernetes/tmp/kubeadm-backup-1").mkdir(parents=True)

    steps._remove_backups(node.node)

    assert node.files.names("/etc/kubernetes/tmp") == ["kubeadm-backup-1"]


@pytest.mark.demand("U75")
@pytest.mark.parametrize(
    "flag",
    [
        "--data-dir=/var/lib/other",
        "'--data-dir=/var/lib/other'",
        "-data-dir=/var/lib/other",
        "--data-dir\n    - /var/lib/other",
        "--config-file=/etc/etcd/etcd.yaml",
    ],
)
def test_room_for_backup_of_etcds_data_is_asked_for(node: Simulated, flag: str) -> None:
    """In whichever form the folder is set."""
    manifest = node.root / "etc/kubernetes/manifests/etcd.yaml"
    manifest.write_text(manifest.read_text().replace("--data-dir=/var/lib/etcd", flag))
    file = node.root / "etc/etcd/etcd.yaml"
    file.parent.mkdir()
    file.write_text("name: a\ndata-dir: /var/lib/other\n")
    node.host.run(["systemctl", "show", "kubelet.service"])
    data = node.root / "var/lib/other/member/snap/db"
    data.parent.mkdir(parents=True)
    with data.open("wb") as opened:
        opened.truncate(2**30)
    node.files.free = 2**30

    assert "the file system of /etc/kubernetes/tmp has 1024 MiB free, the upgrade needs 1088 MiB" in refused(node)

    data.unlink()
    node.step("copy")


@pytest.mark.demand("U38")
def test_containers_survive_a_containerd_upgrade(node: Simulated) -> None:
    node.step("copy")
    node.step("containerd")

    assert [command for command in node.commands.ran if command.startswith("systemctl") and "show" not in command] == [
        "systemctl reset-failed containerd.service",
        "systemctl restart containerd.service",
    ]


def test_failing_kubelet_is_replaced_by_the_old(node: Simulated) -> None:
    node.fail(kubelet=[NEW])
    for name in STEPS[:4]:
        node.step(name)

    with pytest.raises(StepFailed, match=r"new kubelet does not come up: systemd restarted it .* old one was restored"):
        node.step("kubelet")

    assert node.installed()["usr/bin/kubelet"] == old_programs()["usr/bin/kubelet"]
    assert node.host.running("kubelet") == OLD


def test_kubelet_is_upgraded_once_the_cause_is_gone(node: Simulated) -> None:
    test_failing_kubelet_is_replaced_by_the_old(node)
    node.fail()

    for name in STEPS[4:]:
        node.step(name)

    assert node.host.running("kubelet") == NEW
    assert not (node.root / WORK.lstrip("/")).exists()


def test_failing_containerd_is_replaced_by_the_old(node: Simulated) -> None:
    node.fail(containerd=["2.3.7"])
    node.step("copy")

    with pytest.raises(StepFailed, match="the new containerd does not come up"):
        node.step("containerd")

    assert node.installed() == old_programs()
    assert node.host.running("containerd") == "2.1.5"


def test_silent_containerd_is_replaced_by_the_old(node: Simulated, monkeypatch: pytest.MonkeyPatch) -> None:
    node.step("copy")
    answers = node.commands._run

    def silent(command: Sequence[str], timeout: float) -> CompletedProcess[bytes]:
        is_asked = any(part.endswith("/ctr") for part in command) and node.host.running("containerd") == "2.3.7"
        return CompletedProcess(command, 1, b"no answer") if is_asked else answers(command, timeout)

    monkeypatch.setattr(node.commands, "_run", silent)
    with pytest.raises(StepFailed, match=r"does not come up: ctr version exited 1: no answer .*; the old one was"):
        node.step("containerd")

    assert node.host.running("containerd") == "2.1.5"


def test_restored_node_is_inspected_again(node: Simulated) -> None:
    test_failing_containerd_is_replaced_by_the_old(node)
    node.fail(containerd=["2.1.5"])
    node.host.run(["systemctl", "restart", "containerd.service"])

    with pytest.raises(StepFailed, match="before its upgrade; repair it"):
        node.step("containerd")


def test_unready_node_gets_its_old_kubelet_back(node: Simulated) -> None:
    for name in STEPS[:4]:
        node.step(name)
    report(node.cluster, ready="False")

    with pytest.raises(StepFailed, match=r"node node-1 is not ready .said in a test. .*; the old one was"):
        node.step("kubelet")

    assert node.host.running("kubelet") == OLD


def test_slow_node_has_two_minutes_to_be_ready(node: Simulated) -> None:
    for name in STEPS[:4]:
        node.step(name)
    report(node.cluster, ready="False")
    node.later[120] = lambda: report(node.cluster, NEW)

    assert node.step("kubelet") == f"kubelet {NEW} runs, and the node is ready"


@pytest.mark.soak
def test_new_kubelet_stays_if_the_api_server_is_silent(node: Simulated) -> None:
    for name in STEPS[:4]:
        node.step(name)
    node.api.down_with = NEW

    with pytest.raises(StepFailed, match="runs, but its health is unknown"):
        node.step("kubelet")

    assert node.host.running("kubelet") == NEW
    node.api.down_with = ""
    assert node.step("kubelet") == f"kubelet {NEW} runs, and the node is ready"


def test_new_kubelet_stays_if_its_node_is_unreadable(node: Simulated) -> None:
    for name in STEPS[:4]:
        node.step(name)
    node.cluster.ask("DELETE", "/api/v1/nodes/node-1")

    with pytest.raises(StepFailed, match=r"the new kubelet runs, but its health is unknown: .*node-1"):
        node.step("kubelet")

    assert node.host.running("kubelet") == NEW


@pytest.mark.parametrize(
    ("active", "sub", "runs"),
    [("active", "running", True), ("active", "exited", False), ("deactivating", "running", False)],
)
def test_service_runs_when_systemd_says_both_words(
    node: Simulated, monkeypatch: pytest.MonkeyPatch, active: str, sub: str, runs: bool
) -> None:
    output = f"LoadState=loaded\nActiveState={active}\nSubState={sub}\n"
    monkeypatch.setattr(node.commands, "run", lambda *_: Result(0, output))

    assert show(node.node, "kubelet").active is runs


def test_service_ill_before_the_upgrade_is_untouched(node: Simulated) -> None:
    node.fail(containerd=["2.1.5"])
    node.host.run(["systemctl", "restart", "containerd.service"])
    node.step("copy")

    with pytest.raises(StepFailed, match="before its upgrade; repair it"):
        node.step("containerd")

    assert node.installed() == old_programs()


def test_failing_kubeadm_shows_its_last_lines(node: Simulated) -> None:
    node.step("copy")
    node.fail(kubeadm="static pod hash for component etcd did not change after 5m0s")

    with pytest.raises(StepFailed, match=r"kubeadm upgrade apply exited 1: .*etcd did not change"):
        node.step("kubeadm")

    node.fail()
    assert node.step("kubeadm") == f"kubeadm upgraded the node to {NEW} as first-control-plane"


@pytest.mark.parametrize("step", ["containerd", "cni-plugins"])
def test_step_without_copies_says_they_are_missing(node: Simulated, step: str) -> None:
    with pytest.raises(NotCopied, match="components-copier has to run again") as caught:
        node.step(step)

    assert caught.value.code == 75
    assert node.installed() == old_programs()


def test_each_step_says_what_it_did(node: Simulated) -> None:
    lines = upgrade(node)

    assert lines[0] == f"copied 11 of 11 programs to {WORK}/{NEW}; others were there already"
    assert lines[1] == "containerd 2.3.7 was installed on the host and runs"


def test_new_tool_comes_beside_the_kubelet(node: Simulated) -> None:
    (node.root / "usr/bin/kubectl").unlink()

    upgrade(node)

    assert node.installed() == new_programs()


def test_a_tool_is_replaced_where_it_is_on_the_path(node: Simulated) -> None:
    """Not beside the kubelet, where it would hide the old one or be hidden by it."""
    (node.root / "usr/bin/kubectl").rename(node.root / "usr/local/bin/kubectl")

    upgrade(node)

    assert (node.root / "usr/local/bin/kubectl").read_text() == new_programs()["usr/bin/kubectl"]
    assert not (node.root / "usr/bin/kubectl").exists()


def test_done_refuses_when_a_step_was_left_out(node: Simulated) -> None:
    for name in STEPS[:4]:
        node.step(name)

    with pytest.raises(StepFailed, match=r"/usr/bin/kubelet, /usr/bin/kubectl differ from the upgrader image"):
        node.step("done")


@pytest.mark.parametrize("step", ["copy", "kubeadm"])
def test_api_server_must_answer_before_any_change(node: Simulated, step: str) -> None:
    node.api.down = True
    before = node.disk()

    with pytest.raises(StepFailed, match="the API server does not answer"):
        node.step(step)

    assert node.disk() == before


def refused(node: Simulated, wanted: str = NEW) -> str:
    """Why work does not begin; that it has not is asserted."""
    before = node.disk()
    with pytest.raises(StepFailed) as caught:
        steps.copy(node.node, wanted, node.changes)
    assert node.disk() == before
    return str(caught.value)


def test_an_image_for_another_version_is_refused(node: Simulated) -> None:
    assert refused(node, "v1.37.0").startswith(
        f"the upgrader image has Kubernetes {NEW}, but the node is to be upgraded to v1.37.0"
    )


def test_an_image_for_another_architecture_is_refused(tmp_path: Path) -> None:
    with simulated(tmp_path) as node:
        build_image(tmp_path / "image", machine="s390x")
        node.__post_init__()
        assert "the upgrader image is for s390x" in refused(node)


@pytest.mark.parametrize("version", ["1.6.38", "v1.6.0"])
def test_an_image_with_an_old_containerd_is_refused(tmp_path: Path, version: str) -> None:
    with simulated(tmp_path) as node:
        build_image(tmp_path / "image", containerd=version)
        node.__post_init__()
        expected = (
            f"the upgrader image has containerd {version}, which is too old for the kubelet of {NEW} (1.7 or newer"
        )
        assert refused(node).startswith(expected)


@pytest.mark.parametrize(
    ("without", "missing"),
    [
        ("containerd/", "containerd/containerd"),
        ("kubernetes/kubelet", "kubernetes/kubelet"),
        ("kubernetes/", "kubernetes/kubeadm, kubernetes/kubectl, kubernetes/kubelet"),
    ],
)
def test_an_image_without_a_program_is_refused(tmp_path: Path, without: str, missing: str) -> None:
    """The node would keep its containerd, whatever it is."""
    with simulated(tmp_path) as node:
        build_image(tmp_path / "image", without=without)
        node.__post_init__()
        assert refused(node) == (
            f"the upgrader image lacks {missing}: nothing was changed; use an image with all components"
        )


@pytest.mark.parametrize("kubernetes", KUBERNETES.values(), ids=lambda minor: minor.patch)
def test_the_oldest_containerd_is_that_of_the_matrix(kubernetes: KubernetesMinor) -> None:
    assert numbers(kubernetes.containerd_oldest) == checks.OLDEST_CONTAINERD


@pytest.mark.demand("U72")
@pytest.mark.parametrize("system", ["bottlerocket", "rhel"])
def test_other_systems_are_refused_by_name(tmp_path: Path, system: str) -> None:
    with simulated(tmp_path, system=system) as node:
        assert f"the node's operating system is Simulated {system}: only ubuntu and debian" in refused(node)


def test_host_that_does_not_name_its_system_is_refused(node: Simulated) -> None:
    for path in checks.OS_RELEASE:
        (node.root / path.lstrip("/")).unlink(missing_ok=True)

    assert "system is unknown (no /etc/os-release): only ubuntu" in refused(node)


def test_a_kubelet_that_can_not_run_is_repaired_first(node: Simulated, monkeypatch: pytest.MonkeyPatch) -> None:
    answered = node.commands.run

    def run(*command: str, timeout: float = 60) -> Result:
        broken = Result(127, "exec format error")
        return broken if command == ("/usr/bin/kubelet", "--version") else answered(*command, timeout=timeout)

    monkeypatch.setattr(node.commands, "run", run)

    assert refused(node) == "/usr/bin/kubelet --version exited 127 (exec format error): repair the kubelet first"


@pytest.mark.demand("U76")
def test_a_host_of_another_layout_is_refused(node: Simulated) -> None:
    (node.root / "etc/systemd/system/kubelet.service").rename(node.root / "etc/systemd/system/snap.kubelet.service")

    assert "the host has no service kubelet.service" in refused(node)


@pytest.mark.parametrize(
    ("server", "image", "why"),
    [
        ("v1.34.1", NEW, "has version v1.34.1, which is too old for a node with v1.36.3: upgrade one minor at a time"),
        ("v1.40.0", NEW, "the API server has version v1.40.0, which does not support nodes as old as v1.36.3"),
        (OLD, "v1.34.9", "the node's kubelet has version v1.35.4, which is newer than v1.34.9"),
        (OLD, "v1.37.0", "to v1.36 before v1.37.0"),
    ],
)
def test_unsupported_step_is_refused(tmp_path: Path, server: str, image: str, why: str) -> None:
    with simulated(tmp_path) as node:
        build_image(tmp_path / "image", version=image)
        node.__post_init__()
        node.cluster.version = server
        assert why in refused(node, image)


def test_a_worker_may_leave_minors_out(worker: Simulated, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kubernetes allows it to be three behind; its control plane went one at a time."""
    before = parse_version("v1.34.1", "a test")
    monkeypatch.setattr(checks, "kubelet_version", lambda _node: before)
    worker.cluster.version = NEW
    checks.check_versions(worker.node)


def test_a_worker_waits_for_its_control_plane(worker: Simulated) -> None:
    worker.cluster.version = OLD

    assert "upgrade the control plane first" in refused(worker)


def test_control_plane_whose_etcd_is_ill_is_left_alone(node: Simulated) -> None:
    node.api.ready = (500, "[+]ping ok\n[-]etcd failed: reason withheld\nreadyz check failed\n")

    assert "not healthy before the upgrade (etcd)" in refused(node)


def test_a_full_disk_is_noticed_before(node: Simulated) -> None:
    node.files.free = 1024 * 1024

    assert "has 1 MiB free, the upgrade needs" in refused(node)


def test_space_is_checked_where_programs_go(node: Simulated, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        node.files, "room", lambda place: (2, checks.SPARE_BYTES + 1) if place.startswith("/usr/") else (1, 2**50)
    )

    with pytest.raises(StepFailed, match=r"the file system of /usr/.* MiB free"):
        node.step("copy")

    assert node.installed() == old_programs()


def needed_bytes(worker: Simulated, monkeypatch: pytest.MonkeyPatch, files: Mapping[str, ImageFile]) -> int:
    """The least room with which these programs may be copied."""
    monkeypatch.setattr(checks, "SPARE_BYTES", 0)
    node = replace(worker.node, contents=replace(worker.node.contents, files=files))
    targets = services.all_programs(node)
    for free in range(4096):
        worker.files.free = free
        with suppress(StepFailed):
            checks.check_disk_space(node, targets)
            return free
    raise AssertionError("a simulated program is as large as 4 KiB")


def test_programs_that_were_copied_need_no_more_room(worker: Simulated, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that is run again on a disk that its first run has filled goes on."""
    files = worker.node.contents.files
    before = needed_bytes(worker, monkeypatch, files)
    worker.files.free = None
    worker.step("copy")

    assert before > 0
    assert needed_bytes(worker, monkeypatch, files) == 0


def test_programs_with_one_content_need_room_once(worker: Simulated, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their copies are hard links: Kubernetes' programs may be one file."""
    files = worker.node.contents.files
    shared = {**files, "kubernetes/kubectl": files["kubernetes/kubelet"]}
    before = needed_bytes(worker, monkeypatch, files)

    assert needed_bytes(worker, monkeypatch, shared) == before - files["kubernetes/kubectl"].size


def test_the_wrong_role_is_refused(worker: Simulated) -> None:
    worker.step("copy")

    with pytest.raises(StepFailed, match=r"spec\.nodeType of the NodeUpgrade is wrong"):
        steps.kubeadm(worker.node, NEW, steps.KubeadmOptions(steps.FIRST), worker.changes)


def test_programs_are_replaced_where_links_lead(node: Simulated) -> None:
    (node.root / "opt/kube").mkdir(parents=True)
    (node.root / "usr/bin/kubelet").rename(node.root / "opt/kube/kubelet")
    (node.root / "usr/bin/kubelet").symlink_to("../../opt/kube/kubelet")

    upgrade(node)

    assert (node.root / "usr/bin/kubelet").is_symlink()
    assert (node.root / "opt/kube/kubelet").read_text() == new_programs()["usr/bin/kubelet"]


def test_links_never_lead_out_of_the_host(node: Simulated) -> None:
    (node.root / "usr/bin/kubelet").unlink()
    (node.root / "usr/bin/kubelet").symlink_to("/../../opt/kube/kubelet")

    assert node.files.place("/usr/bin/kubelet") == node.root / "opt/kube/kubelet"
    assert node.files.place("/usr/bin/../../../etc/passwd") == node.root / "etc/passwd"
    (node.root / "usr/bin/absolute").symlink_to("/opt/kube/kubelet")
    (node.root / "usr/bin/relative").symlink_to("kube/kubelet")
    assert node.files.place("/usr/bin/absolute") == node.root / "opt/kube/kubelet"
    assert node.files.place("/usr/bin/relative") == node.root / "usr/bin/kube/kubelet"


def test_linked_programs_are_replaced_separately(node: Simulated) -> None:
    several = node.root / "usr/bin/kubernetes"
    (node.root / "usr/bin/kubelet").rename(several)
    for name in ("kubelet", "kubectl"):
        (node.root / "usr/bin" / name).unlink(missing_ok=True)
        (node.root / "usr/bin" / name).symlink_to("kubernetes")
    for name in STEPS[:4]:
        node.step(name)
    before = several.read_text()

    node.step("kubelet")

    assert several.read_text() == before
    assert not (node.root / "usr/bin/kubelet").is_symlink()
    assert node.installed() == new_programs()


def test_linked_backups_take_no_space(node: Simulated) -> None:
    node.files.shares = True
    before = (node.root / "usr/local/bin/containerd").stat().st_ino
    for name in STEPS[:2]:
        node.step(name)

    backup = node.files.place(node.node.contents.backup("/usr/local/bin/containerd"))
    assert backup.stat().st_ino == before
    assert node.files.place("/usr/local/bin/containerd").stat().st_nlink == 2
