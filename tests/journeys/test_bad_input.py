"""Mistakes of users, and the answers: field, what was found, what is allowed. Nothing is half-created."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.support.environments.environment import CommandResult, LocalEnvironment

pytestmark = pytest.mark.embedded

EXAMPLE = (Path(__file__).parents[2] / "examples" / "docker.yaml").read_text()
LOCAL_CLUSTER = "cluster.anywhere.eks.amazonaws.com/laptop"
GARDEN = "cluster.anywhere.eks.amazonaws.com/garden"


def changed(change: Callable[[dict, dict], None]) -> str:  # type: ignore[type-arg]
    documents = list(yaml.safe_load_all(EXAMPLE))
    by_kind = {document["kind"]: document for document in documents}
    change(by_kind["Cluster"], by_kind["DockerDatacenterConfig"])
    return yaml.safe_dump_all(documents)


def spec(path: str, value: object) -> str:
    """The example with one field of the Cluster's spec set."""

    def change(cluster: dict, _datacenter: dict) -> None:  # type: ignore[type-arg]
        *steps, last = path.split(".")
        target = cluster["spec"]
        for step in steps:
            target = target[int(step)] if step.isdigit() else target[step]
        target[last] = value

    return changed(change)


def named(name: str) -> str:
    return changed(lambda cluster, _: cluster["metadata"].update(name=name))


def twice_the_group(cluster: dict, _datacenter: dict) -> None:  # type: ignore[type-arg]
    cluster["spec"]["workerNodeGroupConfigurations"] *= 2


CASES = {
    "unknown field": (spec("controlPlaneConfiguration.cuont", 3), ["spec.controlPlaneConfiguration.cuont", "count"]),
    "wrong type": (spec("controlPlaneConfiguration.count", "three"), ["spec.controlPlaneConfiguration.count", "three"]),
    "unknown Kubernetes version": (
        spec("kubernetesVersion", "1.29"),
        ["spec.kubernetesVersion", "1.29", "1.34, 1.35, 1.36"],
    ),
    "number with another text": (
        EXAMPLE.replace("name: md-0", "name: 1_0"),
        ["standard input:26: spec.workerNodeGroupConfigurations[0].name: wrong type; put the value in quotes"],
    ),
    "name too long": (named("g" * 36), ["metadata.name", "36 characters", "35"]),
    "name no DNS label": (named("Garden_1"), ["metadata.name", "Garden_1"]),
    "no control plane": (spec("controlPlaneConfiguration.count", 0), ["spec.controlPlaneConfiguration.count", "0"]),
    "even control plane": (
        spec("controlPlaneConfiguration.count", 2),
        ["spec.controlPlaneConfiguration.count", "2", "odd"],
    ),
    "group twice": (changed(twice_the_group), ["spec.workerNodeGroupConfigurations[1].name", "md-0"]),
    "external etcd": (spec("externalEtcdConfiguration", {"count": 2}), ["spec.externalEtcdConfiguration.count", "odd"]),
    "key twice": (
        EXAMPLE.replace("spec:", "spec:\n  kubernetesVersion: '1.35'", 1),
        ["kubernetesVersion", "duplicate key"],
    ),
    "document missing": (
        yaml.safe_dump(next(d for d in yaml.safe_load_all(EXAMPLE) if d["kind"] != "Cluster")),
        ["one Cluster", "missing"],
    ),
    "document doubled": (EXAMPLE + "---\n" + EXAMPLE, ["duplicate object"]),
    "no YAML": ("kind: [Cluster", ["standard input:2:1", "not YAML"]),
    "a list of words": ("- a\n- b\n", ["not an object"]),
    "empty": ("", ["empty"]),
}


@pytest.mark.demand("L51")
@pytest.mark.parametrize("case", CASES)
def test_it_is_refused_with_field_and_what_is_allowed(case: str, env: LocalEnvironment) -> None:
    manifest, phrases = CASES[case]
    result = env.apply(manifest)
    assert result.code == 1, result
    assert result.out == ""
    assert_says(result, *phrases)
    assert env.names("get", "clusters", "-A") == [LOCAL_CLUSTER]


def assert_says(result: CommandResult, *phrases: str) -> None:
    for phrase in phrases:
        assert phrase in result.err, f"{phrase!r} is missing in:\n{result.err}"
    assert "Traceback" not in result.err


def test_a_file_that_is_not_there(env: LocalEnvironment) -> None:
    result = env.espalier("create", "cluster", "-f", "nowhere.yaml")
    assert result.code == 1
    assert_says(result, "nowhere.yaml", "no such file")


@pytest.mark.soak
def test_an_api_server_that_is_not_there(env: LocalEnvironment, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    running = yaml.safe_load((env.home / "kubeconfig").read_text())
    running["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    kubeconfig.write_text(yaml.safe_dump(running))
    result = env.espalier("get", "clusters", "--kubeconfig", str(kubeconfig))
    assert result.code == 3
    assert_says(result, "https://127.0.0.1:1")


def test_a_wrong_command_line(env: LocalEnvironment) -> None:
    assert env.espalier("create", "cluster").code == 2
    assert env.espalier("get", "clusters", "-o", "xml").code == 2
    assert env.espalier("grow", "cluster").code == 2


@pytest.mark.soak
def test_all_problems_of_manifest_are_reported_at_once(env: LocalEnvironment) -> None:
    def wrong(cluster: dict, _datacenter: dict) -> None:  # type: ignore[type-arg]
        spec = cluster["spec"]
        spec["workerNodeGroupConfigurations"][0]["count"] = "two"
        spec["controlPlaneConfiguration"] |= {"count": 2, "cuont": 1}
        spec["datacenterRef"]["name"] = "orchard"
        spec |= {"eksaVersion": "v9.9.9", "managementCluster": {"name": "nobody"}, "kubernetesVersion": "1.99"}

    fields = {
        "spec.workerNodeGroupConfigurations[0].count": "the schema",
        "spec.controlPlaneConfiguration.cuont": "the schema",
        "spec.controlPlaneConfiguration.count": "a rule",
        "spec.datacenterRef.name": "the other objects",
        "spec.eksaVersion": "this release",
        "spec.managementCluster.name": "the management cluster",
        "spec.kubernetesVersion": "its releases",
    }
    manifest = changed(wrong)
    ways = {
        "create": env.apply(manifest, "create"),
        "upgrade": env.apply(manifest, "upgrade"),
        "plan": env.espalier("plan", "-f", "-", "--move-release", stdin=manifest),
    }
    for way, result in ways.items():
        assert result.code in (1, 2), result
        named = [line.partition(": ")[2].partition(": ")[0] for line in result.err.replace("error: ", "").splitlines()]
        assert sorted(named) == sorted(fields), (way, result.err)
        assert all(line.startswith("error: standard input:") for line in result.err.splitlines())
    alone = env.espalier("plan", "-f", "-", "--move-release", "--kubeconfig", "/nowhere", stdin=manifest)
    assert sorted(
        line.partition(": ")[2].partition(": ")[0] for line in alone.err.replace("error: ", "").splitlines()
    ) == (sorted(fields.keys() - {"spec.managementCluster.name", "spec.kubernetesVersion"}))


def test_versions_change_one_step_at_a_time(env: LocalEnvironment) -> None:
    older = spec("kubernetesVersion", "1.34")
    assert env.apply(older, "create", "--timeout", "300s").code == 0

    two_steps = env.apply(spec("kubernetesVersion", "1.36"), "upgrade")
    assert two_steps.code == 1
    assert_says(two_steps, "spec.kubernetesVersion", "1.36", "1.35")

    again = env.apply(older, "create")
    assert again.code == 1
    assert_says(again, "already exists", "espalier upgrade cluster")

    assert env.apply(EXAMPLE, "upgrade", "--timeout", "300s").code == 0
    downgrade = env.apply(older, "upgrade")
    assert downgrade.code == 1
    assert_says(downgrade, "spec.kubernetesVersion", "1.34")

    gone = env.apply(EXAMPLE, "delete", "--timeout", "300s")
    assert gone.code == 0, gone
    assert env.names("get", "clusters", "-A") == [LOCAL_CLUSTER]
