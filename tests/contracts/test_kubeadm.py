"""The program on a node relies on this behaviour of kubeadm: the stand-in always, real nodes by `make test-real`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from espalier.upgrader.checks import BACKUPS_OF_KUBEADM
from espalier.upgrader.host import Result
from espalier.upgrader.static_pods import manifests, mirror, mounted, not_restarted
from espalier.upgrader.steps import ALLOW_DISTRIBUTION_VERSION, BACKUP_PREFIX, _cause
from tests.contracts.kubeadm_nodes import DISTRIBUTED_VERSION, NOWHERE, Subject, Tree, real_nodes, simulated_nodes
from tests.support.environments.real_environment import why_not
from tests.support.environments.simulated_node import OLD

WHY_NOT = why_not(OLD.removeprefix("v"))
POLICY = "/etc/kubernetes/contract-policy.yaml"
CONTENT = b"apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: None\n"
LEVEL = {"name": "audit-policy-file", "value": POLICY}
VOLUME = {"name": "contract-policy", "hostPath": POLICY, "mountPath": POLICY, "readOnly": True, "pathType": "File"}

KINDS = [
    pytest.param(simulated_nodes, id="stand-in"),
    pytest.param(
        real_nodes, id="kubeadm", marks=[pytest.mark.nodes, pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)]
    ),
]


@pytest.fixture(scope="module", params=KINDS)
def nodes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Subject, Subject]]:
    """A control plane node and a worker, as kubeadm has made them of kubeadm-config."""
    with request.param(tmp_path_factory.mktemp("kubeadm")) as made:
        yield made


@pytest.fixture(scope="module")
def plane(nodes: tuple[Subject, Subject]) -> Subject:
    return nodes[0]


@pytest.fixture(scope="module")
def worker(nodes: tuple[Subject, Subject]) -> Subject:
    return nodes[1]


@dataclass
class Followed:
    """A run of `kubeadm upgrade node` after a change of kubeadm-config."""

    result: Result
    configuration: Tree
    manifests: dict[str, str]
    before: dict[str, str]
    backups: list[str]
    """The files left in its folder."""
    missing: str
    """Why the static pod that has changed does not run; empty when it does."""


@pytest.fixture(scope="module")
def followed(plane: Subject) -> Followed:
    """The API server gets a flag and a volume."""
    node, configuration = plane.node, plane.configuration()
    server = configuration.get("apiServer") or {}
    arguments = [argument for argument in server.get("extraArgs") or () if argument["name"] != LEVEL["name"]]
    changed = {
        **server,
        "extraArgs": [*arguments, LEVEL],
        "extraVolumes": [*(server.get("extraVolumes") or ()), VOLUME],
    }
    node.files.place_content(POLICY, CONTENT, mode=0o600)
    before, backups = manifests(node), node.files.names(BACKUPS_OF_KUBEADM)
    noted = {name: {"hash": mirror(node, text)[1]} for name, text in before.items()}
    plane.write(configuration | {"apiServer": changed})

    result = plane.kubeadm("upgrade", "node")

    missing = node.until(lambda: not_restarted(node, ["kube-apiserver.yaml"], noted), timeout=300, every=2)
    left = [name for name in node.files.names(BACKUPS_OF_KUBEADM) if name not in backups]
    return Followed(result, plane.configuration(), manifests(node), before, left, missing)


def test_it_says_its_version_in_one_line(plane: Subject) -> None:
    assert plane.kubeadm("version", "--output=short").output.strip() == OLD


@pytest.mark.demand(U39="on the stand-in and on a real node")
def test_follower_renders_version_of_kubeadm_config(followed: Followed) -> None:
    repository = followed.configuration.get("imageRepository") or "registry.k8s.io"

    assert followed.result.code == 0
    for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler"):
        assert f"image: {repository}/{name}:{DISTRIBUTED_VERSION}\n" in followed.manifests[f"{name}.yaml"]


def test_etcd_has_the_image_of_kubeadm_config(followed: Followed) -> None:
    local = followed.configuration["etcd"]["local"]
    repository = local.get("imageRepository") or followed.configuration.get("imageRepository") or "registry.k8s.io"

    assert f"image: {repository}/etcd:{local['imageTag']}\n" in followed.manifests["etcd.yaml"]
    assert "--data-dir=/var/lib/etcd\n" in followed.manifests["etcd.yaml"]


def test_static_pod_has_flags_and_volumes_of_kubeadm(followed: Followed) -> None:
    manifest = followed.manifests["kube-apiserver.yaml"]

    assert f"    - --audit-policy-file={POLICY}\n" in manifest
    assert mounted(manifest, [POLICY, "/etc/elsewhere"]) == [POLICY]
    assert mounted(followed.before["kube-apiserver.yaml"], [POLICY]) == []


def test_manifests_that_stay_the_same_are_not_touched(followed: Followed) -> None:
    others = followed.manifests.keys() - {"kube-apiserver.yaml"}

    assert {name: followed.manifests[name] for name in others} == {name: followed.before[name] for name in others}


def test_kubelet_starts_what_has_changed_and_shows_it(followed: Followed) -> None:
    assert followed.missing == ""


def test_it_leaves_old_manifest_and_etcds_data_behind(plane: Subject, followed: Followed) -> None:
    files, left = plane.node.files, [f"{BACKUPS_OF_KUBEADM}/{name}" for name in followed.backups]

    assert [name for name in followed.backups if not name.startswith(BACKUP_PREFIX)] == []
    old = [files.text(f"{folder}/kube-apiserver.yaml") for folder in left]
    assert old.count(followed.before["kube-apiserver.yaml"]) == 1
    assert sum(files.size(f"{folder}/etcd/member/snap/db") > 0 for folder in left) == 1


def test_run_again_it_changes_no_manifest(plane: Subject, followed: Followed) -> None:
    assert plane.kubeadm("upgrade", "node").code == 0
    assert manifests(plane.node) == followed.manifests


def test_worker_has_no_manifests_afterwards(worker: Subject) -> None:
    assert worker.kubeadm("upgrade", "node").code == 0
    assert manifests(worker.node) == {}
    left = worker.node.files.names(BACKUPS_OF_KUBEADM)
    assert left != []
    assert [name for name in left if not name.startswith(BACKUP_PREFIX)] == []


def test_worker_without_its_kubeconfig_is_named_file(worker: Subject) -> None:
    with worker.without("/etc/kubernetes/kubelet.conf"):
        result = worker.kubeadm("upgrade", "node")

    assert result.code != 0
    assert "/etc/kubernetes/kubelet.conf" in _cause(result)


def test_without_kubeadm_config_nothing_is_rendered(plane: Subject) -> None:
    before = manifests(plane.node)
    with plane.configured(None):
        result = plane.kubeadm("upgrade", "node")

    assert result.code != 0
    assert "kubeadm-config" in _cause(result)
    assert manifests(plane.node) == before


def test_a_check_that_fails_is_one_line_of_the_error(plane: Subject) -> None:
    before = manifests(plane.node)
    with plane.configured(plane.configuration() | {"imageRepository": NOWHERE}):
        result = plane.kubeadm("upgrade", "node")

    assert result.code != 0
    assert _cause(result).startswith("[ERROR ImagePull]: ")
    assert NOWHERE in _cause(result)
    assert manifests(plane.node) == before


@pytest.mark.parametrize("version", ["v1.33.9", "v1.37.0"])
def test_two_minors_at_once_are_refused(plane: Subject, version: str) -> None:
    result = apply(plane, version)

    assert result.code != 0
    assert version in result.output


def test_older_minor_is_left_to_others_to_refuse(plane: Subject) -> None:
    """Our own check of kubeadm-config keeps a control plane from a downgrade."""
    assert apply(plane, "v1.34.4").code == 0


def apply(plane: Subject, version: str) -> Result:
    """A dry run with the flags that the program gives for a distributor's version."""
    return plane.kubeadm("upgrade", "apply", version, "--yes", *ALLOW_DISTRIBUTION_VERSION, "--dry-run")
