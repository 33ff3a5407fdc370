"""Files and kubelet flags of a node are changed with its upgrade, or all of them are as before."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from espalier.upgrader import changes
from espalier.upgrader.changes import Changes, NewFile, read_changes
from espalier.upgrader.files import STAGED
from espalier.upgrader.host import StepFailed
from espalier.upgrader.static_pods import HASH, RESTARTED, annotated, without_annotation
from tests.support.environments.simulated_node import (
    CONFIGURATION,
    NAME,
    NEW_CONTAINERD,
    OLD,
    OLD_CONTAINERD,
    OLD_PLUGINS,
    POLICY,
    STEPS,
    Killed,
    Simulated,
    build_image,
    simulated,
)

MANIFEST = "etc/kubernetes/manifests/kube-apiserver.yaml"
VIP = "/etc/kubernetes/manifests/kube-vip.yaml"
FLAGS = "var/lib/kubelet/kubeadm-flags.env"
UPGRADE = "0d5a"


def policy(text: str = "new policy\n") -> NewFile:
    return NewFile(POLICY, text.encode(), 0o600, "root:root")


CHANGED = Changes((policy(),), (), (("max-pods", "60"),), ("v",), UPGRADE)


def make(place: Path, *, control_plane: bool = True, changed: Changes = CHANGED) -> Iterator[Simulated]:
    """A node that gets changes, and no other version."""
    with simulated(place, control_plane=control_plane) as node:
        build_image(place / "image", OLD, containerd=OLD_CONTAINERD, plugins=OLD_PLUGINS)
        node.cluster.version = OLD
        if control_plane:
            mirror(node, "kube-apiserver")
        (node.root / "etc/kubernetes").mkdir(exist_ok=True)
        (node.root / POLICY[1:]).write_text("old policy\n")
        (node.root / FLAGS).write_text('KUBELET_KUBEADM_ARGS="--v=4 --max-pods=10 --node-ip=10.0.0.1"\n')
        node.host.run(["systemctl", "restart", "kubelet.service"])
        node.changes = changed
        node.__post_init__()
        node.cluster.version = OLD
        yield node


def mirror(node: Simulated, component: str) -> None:
    node.cluster.make(
        "/api/v1/namespaces/kube-system/pods",
        apiVersion="v1",
        kind="Pod",
        metadata={"name": f"{component}-{NAME}", "annotations": {"kubernetes.io/config.mirror": "x", HASH: "before"}},
        spec={"nodeName": NAME, "hostNetwork": True, "containers": [{"name": component, "image": "x"}]},
    )


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Simulated]:
    yield from make(tmp_path)


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Simulated]:
    yield from make(tmp_path, control_plane=False, changed=Changes((), (), (("max-pods", "60"),), ("v",), UPGRADE))


def upgrade(node: Simulated) -> None:
    for name in STEPS:
        node.step(name)
        node.cluster.version = OLD


def restarts(node: Simulated) -> list[str]:
    return [command.split()[2] for command in node.commands.ran if command.startswith("systemctl restart")]


def pod(node: Simulated, component: str = "kube-apiserver") -> Any:
    return node.cluster.ask("GET", f"/api/v1/namespaces/kube-system/pods/{component}-{NAME}")[1]


def test_changed_policy_and_flags_are_in_force(node: Simulated) -> None:
    before = pod(node)["metadata"]["annotations"][HASH]

    upgrade(node)

    assert (node.root / POLICY[1:]).read_text() == "new policy\n"
    assert (node.root / POLICY[1:]).stat().st_mode & 0o777 == 0o600
    annotations = pod(node)["metadata"]["annotations"]
    assert annotations[HASH] != before, "the API server was not started anew"
    assert annotations[RESTARTED] == UPGRADE
    assert (node.root / FLAGS).read_text() == 'KUBELET_KUBEADM_ARGS="--node-ip=10.0.0.1 --max-pods=60"\n'
    assert "--max-pods=60" in node.host.flags()
    assert restarts(node) == ["kubelet.service"]
    assert not (node.root / "var/lib/espalier-upgrade").exists()
    assert not list(node.root.rglob("*.espalier-new"))


@pytest.mark.parametrize(
    ("flags", "removed", "after"),
    [
        ((), ("v",), "--max-pods=10 --node-ip=10.0.0.1"),
        ((("node-ip", "10.0.0.1"),), (), "--v=4 --max-pods=10 --node-ip=10.0.0.1"),
        ((("v", "4"),), (), "--v=4 --max-pods=10 --node-ip=10.0.0.1"),
        ((("v", "5"),), (), "--max-pods=10 --node-ip=10.0.0.1 --v=5"),
    ],
    ids=["only removed", "last, as asked for", "first, as asked for", "another value"],
)
def test_flags_that_are_as_asked_for_keep_their_place(
    worker: Simulated, flags: tuple[tuple[str, str], ...], removed: tuple[str, ...], after: str
) -> None:
    """Another order would be another file: a kubelet would be restarted for nothing."""
    text = changes.wanted_flags(worker.node, Changes((), (), flags, removed, UPGRADE))
    assert text == {f"/{FLAGS}": f'KUBELET_KUBEADM_ARGS="{after}"\n'}
    assert changes.wanted_flags(worker.node, Changes((), (), (), (), UPGRADE)) == {}


def test_static_pod_is_not_started_twice(node: Simulated) -> None:
    flags = [*CONFIGURATION["apiServer"]["extraArgs"], {"name": "profiling", "value": "false"}]
    text = json.dumps(CONFIGURATION | {"apiServer": CONFIGURATION["apiServer"] | {"extraArgs": flags}})
    path = "/api/v1/namespaces/kube-system/configmaps/kubeadm-config"
    node.cluster.ask("PATCH", path, {"data": {"ClusterConfiguration": text}})

    upgrade(node)

    assert "--profiling=false" in (node.root / MANIFEST).read_text()
    assert RESTARTED not in pod(node)["metadata"]["annotations"]
    assert "--profiling=false" in pod(node)["spec"]["containers"][0]["command"]


def test_manifest_of_a_static_pod_starts_and_goes(node: Simulated) -> None:
    manifest = "metadata:\n  name: kube-vip\n  namespace: kube-system\nspec:\n  containers:\n  -\n    image: vip:1\n"
    node.changes = Changes((NewFile(VIP, manifest.encode(), 0o644, "root:root"),), upgrade=UPGRADE)
    upgrade(node)
    assert pod(node, "kube-vip")["spec"]["containers"][0]["image"] == "vip:1"

    node.changes = Changes(removed=(VIP,), upgrade="another")
    upgrade(node)
    assert not (node.root / VIP[1:]).exists()
    assert pod(node, "kube-vip").get("reason") == "NotFound"


@pytest.mark.soak
def test_policy_that_breaks_the_api_server_is_reverted(node: Simulated) -> None:
    manifest = (node.root / MANIFEST).read_text()
    node.step("copy")
    node.fail(file="new policy")

    with pytest.raises(StepFailed, match=r"kube-apiserver .* does not come up .*; the old files were restored"):
        node.step("kubeadm")

    assert (node.root / POLICY[1:]).read_text() == "old policy\n"
    assert (node.root / MANIFEST).read_text() == manifest
    node.changes = Changes((policy("better policy\n"),), upgrade="another")
    upgrade(node)
    assert (node.root / POLICY[1:]).read_text() == "better policy\n"
    assert pod(node)["metadata"]["annotations"][RESTARTED] == "another"


def test_static_pod_that_is_not_restarted_is_noticed(node: Simulated, monkeypatch: pytest.MonkeyPatch) -> None:
    node.step("copy")
    path = f"/api/v1/namespaces/kube-system/pods/kube-apiserver-{NAME}/status"
    node.cluster.ask("PATCH", path, {"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    monkeypatch.setattr(node.host, "_run_static_pods", lambda: None)

    with pytest.raises(StepFailed, match=r"kube-apiserver\.yaml does not come up \(it was not restarted\)"):
        node.step("kubeadm")


def test_files_written_twice_are_restored(node: Simulated) -> None:
    node.step("copy")
    changes.write_files(node.node, node.changes)
    changes.write_files(node.node, node.changes)
    node.fail(kubeadm="no way")

    with pytest.raises(StepFailed, match="and the old files were restored"):
        node.step("kubeadm")

    assert (node.root / POLICY[1:]).read_text() == "old policy\n"


def test_state_is_recorded_anew_for_each_attempt(node: Simulated) -> None:
    """Else a static pod that somebody has corrected in between would keep the old files from being given back."""
    manifest = node.root / VIP[1:]
    manifest.write_text("kind: Pod\nmetadata:\n  name: kube-vip\n")
    node.step("copy")
    node.fail(kubeadm="no way")
    for _ in range(2):
        with pytest.raises(StepFailed, match="and the old files were restored"):
            node.step("kubeadm")
        assert (node.root / POLICY[1:]).read_text() == "old policy\n"
        manifest.write_text(manifest.read_text() + "  namespace: kube-system\n")


def test_restarted_static_pod_is_noted_as_before(node: Simulated) -> None:
    """Noted again, the restarted one would count as not started anew, for good."""
    node.step("copy")
    changes.write_files(node.node, node.changes)
    changes.restart_static_pods(node.node, node.changes)

    changes.write_files(node.node, node.changes)
    changes.restart_static_pods(node.node, node.changes)

    assert pod(node)["metadata"]["annotations"][RESTARTED] == UPGRADE


def test_a_kubeadm_that_fails_leaves_the_old_files(node: Simulated) -> None:
    node.step("copy")
    node.fail(kubeadm="no way")

    with pytest.raises(StepFailed, match="and the old files were restored"):
        node.step("kubeadm")

    assert (node.root / POLICY[1:]).read_text() == "old policy\n"


def test_flags_that_break_the_kubelet_are_reverted(worker: Simulated) -> None:
    before = (worker.root / FLAGS).read_text()
    for name in STEPS[:4]:
        worker.step(name)
    worker.fail(flag="--max-pods=60")

    with pytest.raises(StepFailed, match="the old one was restored and runs"):
        worker.step("kubelet")

    assert (worker.root / FLAGS).read_text() == before
    assert worker.host.flags() == before.strip()


def test_leftovers_of_a_killed_write_go_at_the_end(node: Simulated) -> None:
    places = [node.root / path.lstrip("/") for path in (FLAGS, POLICY)]
    left = [place.with_name(f".{place.name}{STAGED}") for place in places]
    for name in STEPS[:5]:
        node.step(name)
    for path in left:
        path.write_text("half")

    node.step("done")

    assert not any(path.exists() for path in left)


@pytest.mark.soak
@pytest.mark.parametrize("step", ["kubeadm", "kubelet"])
def test_killed_step_makes_its_changes_when_run_again(tmp_path: Path, step: str) -> None:
    undisturbed = next(killed(tmp_path / "undisturbed", step, -1)).doom.moments
    assert [item for item in undisturbed if item.endswith(POLICY if step == "kubeadm" else FLAGS)], (
        "it is in what is tried"
    )
    for at in range(0, len(undisturbed), 5):
        for node in killed(tmp_path / str(at), step, at):
            assert (node.root / POLICY[1:]).read_text() in ("old policy\n", "new policy\n"), undisturbed[at]
            upgrade(node)
            assert (node.root / POLICY[1:]).read_text() == "new policy\n", undisturbed[at]
            assert pod(node)["metadata"]["annotations"][RESTARTED] == UPGRADE, undisturbed[at]
            assert node.host.flags() == 'KUBELET_KUBEADM_ARGS="--node-ip=10.0.0.1 --max-pods=60"', undisturbed[at]
            assert not (node.root / "var/lib/espalier-upgrade").exists(), undisturbed[at]


def killed(place: Path, step: str, at: int) -> Iterator[Simulated]:
    """A node on which a step was killed at one of the moments at which it changes something."""
    for node in make(place):
        for name in STEPS[: STEPS.index(step)]:
            node.step(name)
            node.cluster.version = OLD
        node.doom.at, node.doom.seen, node.doom.moments = at, 0, []
        with suppress(Killed):
            node.step(step)
        node.doom.at = -1
        yield node


@pytest.mark.parametrize(
    "path", ["etc/x", "/etc/../x", "/etc//x", "/etc/./x", "/", "/etc/kubernetes/", "/etc/link/x", "/etc/link", "/etc"]
)
def test_unclean_path_is_refused_untouched(node: Simulated, path: str) -> None:
    (node.root / "etc/link").symlink_to("kubernetes")
    before = node.disk()
    node.changes = Changes((NewFile(path, b"", 0o600, "root"),))

    with pytest.raises(StepFailed, match="files: "):
        node.step("copy")

    assert node.disk() == before


@pytest.mark.parametrize(
    "flag", [("v", '4" x'), ("v", "4 --x=1"), ("v", "4\n"), ("--v", "4"), ("v", "$x"), ("v=1", "")]
)
def test_flag_of_several_words_is_refused_untouched(node: Simulated, flag: tuple[str, str]) -> None:
    node.changes = Changes(flags=(flag,))

    with pytest.raises(StepFailed, match="kubelet flags: found"):
        node.step("copy")


def test_changes_are_read_as_the_pod_brings_them(tmp_path: Path) -> None:
    assert not read_changes(None)
    content = base64.b64encode(b"x").decode()
    tree = {
        "files": [{"path": "/a", "content": content, "permissions": "0640", "owner": "root:adm"}, {"path": "/b"}],
        "removedFiles": ["/c"],
        "kubeletArgs": [{"name": "v", "value": "4"}],
        "removedKubeletArgs": ["w"],
    }
    (tmp_path / changes.FILE).write_text(json.dumps(tree))

    result = read_changes(tmp_path, UPGRADE)

    files = (NewFile("/a", b"x", 0o640, "root:adm"), NewFile("/b", b"", 0o644, "root:root"))
    assert result == Changes(files, ("/c",), (("v", "4"),), ("w",), UPGRADE)


@pytest.mark.parametrize(
    "text",
    [
        *("", "[", "[]", '{"files": [{}]}', '{"files": [{"path": "/a", "permissions": "4755"}]}', "[" * 100_000),
        *('{"files": [{"path": "/a", "content": "%"}]}', '{"removedFiles": 1}', " " * 1_000_001),
    ],
)
def test_malformed_changes_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / changes.FILE).write_text(text)

    with pytest.raises(StepFailed, match=r"nothing was changed; correct spec\.bootstrapChanges"):
        read_changes(tmp_path)


@pytest.mark.parametrize(
    "manifest",
    [
        "metadata:\n  name: a\nspec: {}\n",
        "apiVersion: v1\nmetadata:\n  annotations:\n    a/b: c\n  name: a\nspec: {}\n",
    ],
)
def test_manifest_is_restored_without_the_annotation(manifest: str) -> None:

    once = annotated("a", manifest, "1")

    assert yaml.safe_load(once)["metadata"]["annotations"][RESTARTED] == "1"
    assert without_annotation(once) == manifest
    assert without_annotation(annotated("a", once, "2")) == manifest


def test_manifest_without_metadata_is_reported() -> None:
    with pytest.raises(StepFailed, match="has no metadata block"):
        annotated("/etc/kubernetes/manifests/a.yaml", '{"metadata": {}}', "1")


@pytest.mark.demand("U38")
def test_containerd_alone_can_be_exchanged(tmp_path: Path) -> None:
    for node in make(tmp_path, changed=Changes(upgrade=UPGRADE)):
        build_image(tmp_path / "image", OLD)
        node.__post_init__()
        node.cluster.version = OLD

        upgrade(node)

        assert node.host.running("containerd") == NEW_CONTAINERD
        assert restarts(node) == ["containerd.service"], "the kubelet was there already"


def test_file_has_its_owner_before_it_is_readable(node: Simulated, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[str, int, int, int]] = []

    def chown(path: Path, user: int, group: int) -> None:
        given.append((path.name, user, group, path.stat().st_mode & 0o777))

    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("os.chown", chown)
    node.files.place_content("/etc/kubernetes/ours", b"x", mode=0o644, owner=(1001, 1002))

    assert [item[:3] for item in given] == [(f".ours{STAGED}", 1001, 1002)]
    assert node.files.mode("/etc/kubernetes/ours") == 0o644
    assert node.files.mode("/etc/kubernetes/none") == 0o644


@pytest.mark.parametrize(
    ("owner", "numbers"), [("etcd:adm", (1001, 4)), ("etcd", (1001, 1002)), ("12:7", (12, 7)), ("root:root", (0, 0))]
)
def test_file_belongs_to_who_is_called_so_on_node(
    node: Simulated, monkeypatch: pytest.MonkeyPatch, owner: str, numbers: tuple[int, int]
) -> None:
    (node.root / "etc/passwd").write_text(
        "root:x:0:0::/root:/bin/sh\nother:x:9:9::/:/bin/sh\netcd:x:1001:1001::/:/bin/sh\n"
    )
    (node.root / "etc/group").write_text("root:x:0:\nother:x:9:\nadm:x:4:\netcd:x:1002:\n")
    given: list[tuple[int, int] | None] = []
    monkeypatch.setattr(node.files, "_set_owner_and_mode", lambda _staged, _mode, owner: given.append(owner))

    changes.write_files(node.node, Changes(files=(NewFile("/etc/kubernetes/ours", b"x", 0o600, owner),), upgrade="u"))

    assert given[-1] == numbers
