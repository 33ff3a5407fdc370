"""The commands beside the main job: what they print, and how they end."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
import yaml

from espalier.cli.clusters.manifests import preflight
from espalier.cli.main import run
from tests.support.environments.environment import LocalEnvironment
from tests.support.providers.credential_variables import CREDENTIALS

pytestmark = pytest.mark.embedded

EXAMPLE = (Path(__file__).parents[2] / "examples" / "docker.yaml").read_text()


@pytest.mark.demand("L52", "L53", "L61", L50="to a management cluster")
def test_cluster_is_created_shown_reached_and_deleted(env: LocalEnvironment, tmp_path: Path) -> None:
    (tmp_path / "garden.yaml").write_text(EXAMPLE)
    tried = env.espalier("create", "cluster", "-f", "garden.yaml", "--dry-run=server", folder=tmp_path)
    assert (tried.code, "would be created" in tried.err) == (0, True)
    assert env.names("get", "clusters") == ["cluster.anywhere.eks.amazonaws.com/laptop"]

    made = env.espalier("create", "cluster", "-f", "garden.yaml", folder=tmp_path)
    assert made.code == 0, made
    written = tmp_path / "garden" / "garden-eks-a-cluster.kubeconfig"
    assert stat.S_IMODE(written.stat().st_mode) == 0o600
    assert env.espalier("kubeconfig", "garden").out == written.read_text()
    assert yaml.safe_load(written.read_text())["clusters"][0]["cluster"]["server"].startswith("https://127.0.0.1:")

    table = env.espalier("get", "clusters", "-A").out.splitlines()
    columns = ["NAMESPACE", "NAME", "VERSION", "CONTROL", "PLANE", "WORKERS", "READY", "AGE"]
    assert table[0].split() == columns
    assert table[1].split()[:6] == ["default", "garden", "1.35", "True", "True", "True"]
    tree = json.loads(env.espalier("get", "clusters", "garden", "-o", "json").out)
    assert tree["status"]["phase"] == "Running"
    assert env.espalier("get", "clusters", "garden", "-o", "jsonpath={.status.phase}").out == "Running"
    assert env.names("get", "clusters", "-l", "nobody=here") == []

    gone = env.espalier("delete", "cluster", "garden")
    assert (gone.code, gone.out) == (0, "")
    missing = env.espalier("delete", "cluster", "garden")
    assert (missing.code, "does not exist" in missing.err) == (1, True)
    nowhere = env.espalier("kubeconfig", "garden")
    assert (nowhere.code, "Secret garden-kubeconfig" in nowhere.err) == (1, True)


@pytest.mark.demand("L52")
def test_command_reports_timeout_and_cluster_goes_on(env: LocalEnvironment) -> None:
    slow = EXAMPLE.replace("name: garden", "name: orchard")
    told = env.apply(slow, "create", "--timeout", "1ms")
    assert told.code == 4
    assert "not ready after 0.001 s" in told.err
    assert env.apply(slow, "upgrade", "--timeout", "300s").code == 0
    assert env.espalier("delete", "cluster", "orchard").code == 0


@pytest.mark.demand("L51")
def test_invalid_manifest_is_not_sent_and_fully_judged(env: LocalEnvironment) -> None:
    wrong = EXAMPLE.replace("name: garden", "name: orchard").replace('"1.35"', '"1.29"')
    wrong = wrong.replace("controlPlaneConfiguration:\n    count: 1", "controlPlaneConfiguration:\n    count: 2")
    told = env.apply(wrong)
    assert told.code == 1
    assert told.err.strip().splitlines() == [
        "error: standard input:17: spec.controlPlaneConfiguration.count: etcd runs on these machines and needs a "
        "majority, so their number must be odd; found 2; allowed: 1, 3, 5, …",
        "error: standard input:21: spec.kubernetesVersion: release v0.26.0 does not have this Kubernetes version; "
        "found 1.29; allowed: 1.34, 1.35, 1.36",
    ]
    assert env.names("get", "clusters") == ["cluster.anywhere.eks.amazonaws.com/laptop"]


def test_cluster_with_address_of_another_is_not_sent(env: LocalEnvironment) -> None:
    example = (Path(__file__).parents[2] / "examples" / "vsphere.yaml").read_text()
    name = yaml.safe_load(example.partition("\n---")[0])["metadata"]["name"]
    made = env.espalier("create", "cluster", "-f", "-", "--wait=false", stdin=example, folder=env.home, **CREDENTIALS)
    assert made.code == 0, made.err
    told = env.apply(example.replace(name, "meadow"), "create")
    message = "spec.controlPlaneConfiguration.endpoint.host: another cluster uses this address"
    assert (told.code, message in told.err, "choose a free address" in told.err) == (1, True, True), told.err
    assert len(env.names("get", "clusters")) == 2
    assert env.apply(example, "upgrade", "--wait=false").code == 0, "its own address"
    assert env.espalier("delete", "cluster", name).code == 0


def test_environment_shows_its_address_and_is_single(env: LocalEnvironment) -> None:
    facts = yaml.safe_load(env.espalier("status", "-o", "yaml").out)
    assert facts["kubeconfig"] == str(env.home / "kubeconfig")
    assert stat.S_IMODE(Path(facts["kubeconfig"]).stat().st_mode) == 0o600
    second = env.espalier("up")
    assert (second.code, f"process {facts['pid']}" in second.err, "espalier down" in second.err) == (1, True, True)


def test_commands_without_an_environment_say_the_way(tmp_path: Path) -> None:
    nobody = LocalEnvironment(tmp_path)
    assert nobody.espalier("status").code == 3
    away = nobody.espalier("get", "clusters")
    assert (away.code, "espalier up" in away.err) == (3, True)
    assert nobody.espalier("down").code == 0


def test_the_version_is_the_release_of_this_build(env: LocalEnvironment) -> None:
    facts = json.loads(env.espalier("version", "-o", "json").out)
    release = env.espalier("get", "clusters", "laptop", "-o", "jsonpath={.spec.eksaVersion}").out
    assert facts["eksaVersion"] == release == f"v{facts['version']}"


@pytest.mark.demand(L48="it is refused, with what to do instead, and nothing is written")
@pytest.mark.parametrize(
    ("verb", "manager", "message"),
    [
        ("upgrade", "laptop", 'spec.managementCluster.name: cluster "laptop" is self-managed'),
        ("upgrade", None, 'spec.managementCluster.name: cluster "laptop" is self-managed'),
        ("upgrade", "shed", "cluster default/laptop is self-managed"),
        ("create", "shed", "cluster default/laptop already exists"),
    ],
)
def test_impossible_change_of_a_record_is_not_written(
    env: LocalEnvironment, verb: str, manager: str | None, message: str
) -> None:
    live = ("get", "clusters", "laptop", "-o", "json")
    before = env.espalier(*live).out
    tree = json.loads(before)
    tree["metadata"] = {"name": "laptop", "namespace": "default", "annotations": tree["metadata"]["annotations"]}
    tree["spec"] |= {"kubernetesVersion": "1.37", "managementCluster": {"name": manager} if manager else None}
    told = env.apply(json.dumps(tree), verb, "--timeout", "300s")
    assert told.code == 1, told.err
    assert verb == "create" or "espalier up" in told.err
    assert message in " ".join(told.err.split())
    assert env.espalier(*live).out == before


def test_upgrade_recreates_no_deleted_cluster(
    env: LocalEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command has read it, and decided by what it read."""
    file = tmp_path / "fleeting.yaml"
    file.write_text(EXAMPLE.replace("garden", "fleeting"))
    assert env.espalier("create", "cluster", "-f", str(file)).code == 0

    async def deleted(*_: object) -> tuple[str, ...]:
        assert env.espalier("delete", "cluster", "fleeting").code == 0
        return ()

    monkeypatch.setattr(preflight, "judge", deleted)
    kubeconfig = str(env.home / "kubeconfig")
    assert run(["upgrade", "cluster", "-f", str(file), "--keep-release", "--kubeconfig", kubeconfig]) == 1
    assert "no existing object was found" in " ".join(capsys.readouterr().err.split())
    assert "cluster.anywhere.eks.amazonaws.com/fleeting" not in env.names("get", "clusters")
