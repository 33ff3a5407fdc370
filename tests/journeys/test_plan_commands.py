"""`espalier plan` and `espalier generate objects`, as people run them."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

import espalier.releases
from espalier.api.meta import Tree
from tests.support.environments.environment import CommandResult, LocalEnvironment
from tests.support.sampling import sampled

pytestmark = pytest.mark.embedded

EXAMPLE = (Path(__file__).parents[2] / "examples" / "docker.yaml").read_text()
UPGRADED = EXAMPLE.replace('"1.35"', '"1.36"').replace("count: 2", "count: 3")
ORCHARD = EXAMPLE.replace("name: garden", "name: orchard")
RELEASES = Path(espalier.releases.__file__).parent / "data"


@pytest.fixture(scope="module")
def env(env: LocalEnvironment) -> LocalEnvironment:
    assert env.apply(EXAMPLE, "create", "--timeout", "300s").code == 0
    return env


def of(env: LocalEnvironment, text: str, *flags: str) -> tuple[int, list[Tree]]:
    result = env.espalier("plan", "-f", "-", "-o", "json", *flags, stdin=text)
    assert result.out, result.err
    return result.code, json.loads(result.out)["clusters"]


@pytest.mark.soak
def test_a_cluster_as_requested_has_an_empty_plan(env: LocalEnvironment) -> None:
    result = env.espalier("plan", "-f", "-", stdin=EXAMPLE)
    assert (result.code, result.err) == (0, "")
    assert "Nothing would change." in result.out
    assert result.out.splitlines()[-1] == "1 cluster; objects: none; machines: none"


@pytest.mark.soak
def test_plan_of_upgrade_shows_each_field_and_machine(env: LocalEnvironment) -> None:
    result = env.espalier("plan", "-f", "-", stdin=UPGRADED, COLUMNS="120")
    assert result.code == 1
    for line in (
        "        spec.kubernetesVersion: 1.35 → 1.36",
        "    + DockerMachineTemplate eksa-system/garden-control-plane-2 in the place of garden-control-plane-1",
        "        spec.replicas: 2 → 3",
        "    - DockerMachineTemplate eksa-system/garden-md-0-1",
        "  Machines (workers once all of the control plane has its version)",
        "    control plane: 1 replaced",
        "    garden-md-0: 2 replaced, one at a time, 1 made",
    ):
        assert line in result.out.splitlines(), result.out
    assert "objects: 2 created, 3 changed, 2 deleted; machines: 3 replaced, 1 made" in result.out
    assert "\x1b[" not in result.out
    narrow = env.espalier("plan", "-f", "-", stdin=UPGRADED, COLUMNS="60")
    long = [line for line in narrow.out.splitlines() if len(line) > 60 and " " in line.strip().removeprefix("→ ")]
    assert long == []


@pytest.mark.soak
def test_the_plan_for_programs_says_the_same(env: LocalEnvironment) -> None:
    code, (cluster,) = of(env, UPGRADED)
    assert (code, cluster["wouldChange"], cluster["settled"]) == (1, True, False)
    changed = {(object_["kind"], object_["action"]): object_ for object_ in cluster["objects"]}
    assert {"field": "spec.replicas", "old": 2, "new": 3} in changed["MachineDeployment", "change"]["fields"]
    control_plane, workers = cluster["machines"]
    assert (control_plane["group"], len(control_plane["going"]), control_plane["coming"]) == ("control plane", 1, 1)
    assert (workers["group"], len(workers["going"]), workers["coming"]) == ("garden-md-0", 2, 3)
    assert "infrastructure.customImage" in workers["going"][0]["because"]
    assert cluster["estimate"]["measuredMachines"] == 3
    assert yaml.safe_load(env.espalier("plan", "-f", "-", "-o", "yaml", stdin=UPGRADED).out) == {"clusters": [cluster]}


@pytest.mark.soak
def test_nothing_is_done_by_asking(env: LocalEnvironment) -> None:
    version = ("get", "clusters", "garden", "-o", "jsonpath={.metadata.resourceVersion}")
    before = env.espalier(*version).out
    assert of(env, UPGRADED)[0] == 1
    assert of(env, ORCHARD)[0] == 1
    assert env.espalier(*version).out == before
    assert "cluster.anywhere.eks.amazonaws.com/orchard" not in env.names("get", "clusters", "-A")


def test_several_clusters_are_planned_at_once(env: LocalEnvironment) -> None:
    code, (garden, orchard) = of(env, f"{UPGRADED}---\n{ORCHARD}")
    assert code == 1
    assert [garden["name"], orchard["name"]] == ["garden", "orchard"]
    assert {item["action"] for item in (*orchard["asked"], *orchard["objects"])} == {"create"}
    assert len(orchard["objects"]) == 9
    assert [group["coming"] for group in orchard["machines"]] == [1, 2]
    assert orchard["workloadCluster"]["exact"]


@pytest.mark.soak
def test_all_that_would_be_refused_is_said(env: LocalEnvironment) -> None:
    wrong = (
        UPGRADED.replace('"1.36"', '"1.37"').replace("count: 1", "count: 2").replace("192.168.0.0/16", "10.0.0.0/16")
    )
    result = env.espalier("plan", "-f", "-", stdin=wrong)
    assert result.code == 2
    refused = [line for line in result.out.splitlines() if line.startswith("    ! refused: ")]
    assert len(refused) == 4, result.out  # the version is a step too far, and in no Bundles
    assert result.out.splitlines()[-1].endswith("; 1 refused")
    code, (cluster,) = of(env, wrong)
    fields = {refusal["field"] for refusal in cluster["refusals"]}
    assert (code, cluster["machines"]) == (2, [])
    assert fields == {
        "spec.controlPlaneConfiguration.count",
        "spec.clusterNetwork.pods",
        "spec.kubernetesVersion",
    }


def test_a_manifest_refused_by_the_schema_has_no_plan(env: LocalEnvironment) -> None:
    result = env.espalier("plan", "-f", "-", stdin=EXAMPLE.replace('"1.35"', "[1.35]"))
    assert (result.code, result.out) == (2, "")
    assert "spec.kubernetesVersion: wrong type; found [1.35] (a list); allowed: a string" in result.err


@pytest.mark.soak
def test_a_release_is_asked_for_without_a_manifest(env: LocalEnvironment) -> None:
    back = env.espalier("plan", "--eksa-version", "v0.25.1")
    assert back.code == 2
    assert "a cluster can't be downgraded from v0.26.0" in back.out
    assert env.espalier("plan", "--eksa-version", "v0.26.0").code == 0
    code, (cluster,) = of(env, ORCHARD, "--eksa-version", "v0.25.1")
    assert code == 1
    assert any("one minor version behind the management cluster" in warning for warning in cluster["warnings"])
    assert [offeredpatch["name"] for offeredpatch in cluster["offeredPatches"]] == ["short-lived-tokens"]


@pytest.mark.soak
def test_manager_of_this_build_leaves_clusters_alone(env: LocalEnvironment) -> None:
    for isolation in ("layers", "gate", "off"):
        result = env.espalier("plan", "--manager", "-A", "--isolation", isolation)
        assert (result.code, "Nothing would change." in result.out) == (0, True), result.out


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    sampled(
        [
            ((), 2, "give a manifest (-f FILE), a release (--eksa-version V), or --manager"),
            (("--manager", "--eksa-version", "v0.26.0"), 2, "omit -f and --eksa-version"),
            (("-f", "nowhere.yaml"), 2, "nowhere.yaml: no such file"),
            (("--manager", "-o", "xml"), 2, "allowed are table, wide, json, yaml"),
            (("--manager", "--kubeconfig", "away"), 3, "127.0.0.1:1"),
        ],
        3,
    ),
)
def test_exit_codes_tell_errors_from_changes(
    env: LocalEnvironment, tmp_path: Path, arguments: tuple[str, ...], code: int, complaint: str
) -> None:
    (tmp_path / "away").write_text(AWAY)
    result = env.espalier("plan", *arguments, folder=tmp_path)
    assert (result.code, result.out) == (code, "")
    assert complaint in result.err


AWAY = """apiVersion: v1
kind: Config
current-context: away
clusters: [{name: away, cluster: {server: 'https://127.0.0.1:1'}}]
contexts: [{name: away, context: {cluster: away, user: away}}]
users: [{name: away, user: {}}]
"""


def generated(folder: Path, text: str, *flags: str) -> list[Tree]:
    result = LocalEnvironment(folder).espalier("generate", "objects", "-f", "-", *flags, stdin=text)
    assert result.code == 0, result.err
    return list(yaml.safe_load_all(result.out))


@pytest.mark.soak
@pytest.mark.parametrize("flags", sampled([((),), (("-o", "json"),)], 1))
def test_reader_who_left_does_not_make_change_nothing(env: LocalEnvironment, flags: Sequence[str]) -> None:
    """As of `espalier plan -f FILE | head -1` under pipefail."""
    reader, writer = os.pipe()
    os.close(reader)
    result = env.into(writer, "plan", "-f", "-", *flags, stdin=UPGRADED)
    os.close(writer)
    assert result == CommandResult(1, "", "")


@pytest.mark.soak
def test_unwritable_output_is_an_error(env: LocalEnvironment) -> None:
    with Path("/dev/full").open("wb") as full:
        result = env.into(full.fileno(), "plan", "-f", "-", stdin=EXAMPLE)
    assert result == CommandResult(
        2, "", "error: the output in /dev/full could not be written: No space left on device\n"
    )


@pytest.mark.soak
def test_objects_of_a_manifest_need_no_cluster(tmp_path: Path, env: LocalEnvironment) -> None:
    objects = generated(tmp_path, ORCHARD)
    _, (planned,) = of(env, ORCHARD)
    assert [(object_["kind"], object_["metadata"]["name"]) for object_ in objects] == [
        (object_["kind"], object_["name"]) for object_ in planned["objects"]
    ]
    assert all(object_["metadata"]["namespace"] == "eksa-system" for object_ in objects)
    control_plane = next(object_ for object_ in objects if object_["kind"] == "KubeadmControlPlane")
    assert control_plane["spec"]["version"] == "v1.35.4-eks-1-35-1"
    (document,) = generated(tmp_path, ORCHARD, "-o", "json")
    assert document["items"] == objects
    shipped = generated(tmp_path, ORCHARD, "--workload")
    assert {item["kind"] for item in shipped} == {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "DaemonSet"}


def test_the_objects_are_of_the_releases_of_a_folder(tmp_path: Path) -> None:
    shutil.copytree(RELEASES, tmp_path / "mirror")
    manifest = tmp_path / "mirror" / "releases.yaml"
    tree = yaml.safe_load(manifest.read_text())
    tree["spec"]["releases"] = [release for release in tree["spec"]["releases"] if release["version"] == "v0.25.1"]
    tree["spec"]["latestVersion"] = "v0.25.1"
    manifest.write_text(yaml.safe_dump(tree))
    older = generated(tmp_path, EXAMPLE, "--releases", str(tmp_path / "mirror"))
    assert older != generated(tmp_path, EXAMPLE)
    named = EXAMPLE.replace("spec:\n  cluster", "spec:\n  eksaVersion: v0.25.1\n  cluster", 1)
    assert older == generated(tmp_path, named)


def test_a_cluster_refused_by_admission_is_not_made(tmp_path: Path) -> None:
    wrong = EXAMPLE.replace('"1.35"', '"1.30"').replace("count: 1", "count: 2")
    result = LocalEnvironment(tmp_path).espalier("generate", "objects", "-f", "-", stdin=wrong)
    assert (result.code, result.out) == (1, "")
    assert "standard input:17: spec.controlPlaneConfiguration.count: " in result.err
    assert (
        "standard input:21: spec.kubernetesVersion: release v0.26.0 does not have this Kubernetes version" in result.err
    )
    assert "Traceback" not in result.err


def test_objects_with_a_pattern_are_not_made(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "examples" / "vsphere.yaml").read_text()
    pattern = re.sub(r"resourcePool: .*", 'resourcePool: "*/Resources"', text)
    result = LocalEnvironment(tmp_path).espalier("generate", "objects", "-f", "-", stdin=pattern)
    assert (result.code, result.out) == (1, "")
    assert "spec.resourcePool: only the infrastructure knows what a pattern" in result.err
    assert "write the value itself" in result.err


def test_objects_of_several_managers_are_generated(tmp_path: Path) -> None:
    example = (Path(__file__).parents[2] / "examples" / "docker.yaml").read_text()
    other = example.replace("name: laptop", "name: hub").replace("name: garden", "name: plot")
    made = generated(tmp_path, f"{example}\n---\n{other}")
    named = {tree["metadata"]["name"] for tree in made if tree["kind"] == "KubeadmControlPlane"}
    assert named == {"garden", "plot"}
