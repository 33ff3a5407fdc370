"""A manifest that names an object which exists nowhere is refused by each command before anything is sent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.support.environments.environment import LocalEnvironment

pytestmark = pytest.mark.embedded

EXAMPLE = (Path(__file__).parents[2] / "examples" / "docker.yaml").read_text()
CLUSTER, DATACENTER = (
    yaml.safe_dump(next(item for item in yaml.safe_load_all(EXAMPLE) if (item["kind"] == "Cluster") is wanted))
    for wanted in (True, False)
)
LINE = next(at for at, line in enumerate(CLUSTER.splitlines(), 1) if "datacenterRef" in line)
NAMED = "names DockerDatacenterConfig garden in namespace default, which does not exist; add it to the manifest"


def test_an_absent_object_is_refused_until_it_exists(env: LocalEnvironment) -> None:
    created = env.apply(CLUSTER, "create", "--timeout", "300s")
    assert created.code == 1
    assert f"standard input:{LINE}: spec.datacenterRef: {NAMED}" in created.err
    assert "cluster.anywhere.eks.amazonaws.com/garden" not in env.names("get", "clusters")

    planned = env.espalier("plan", "-f", "-", "-o", "json", stdin=CLUSTER)
    (cluster,) = json.loads(planned.out)["clusters"]
    assert planned.code == 2
    assert cluster["refusals"] == [{"field": "spec.datacenterRef", "message": NAMED}]
    assert cluster["objects"] == []

    both = env.apply(CLUSTER.replace("count: 1", "count: 2", 1), "create")
    assert f"standard input:{LINE}: spec.datacenterRef: {NAMED}" in both.err
    assert "spec.controlPlaneConfiguration.count: " in both.err

    elsewhere = DATACENTER.replace("  name: garden\n", "  name: garden\n  namespace: kube-public\n")
    beside = NAMED.replace("add it to the manifest", "the manifest has it in namespace kube-public")
    for command in ("create", "--timeout", "300s"), ("create", "--dry-run=server"):
        moved = env.apply(f"{CLUSTER}---\n{elsewhere}", *command)
        assert moved.code == 1
        assert f"standard input:{LINE}: spec.datacenterRef: {beside}" in moved.err
    planned = env.espalier("plan", "-f", "-", "-o", "json", stdin=f"{CLUSTER}---\n{elsewhere}")
    assert beside in planned.out

    assert env.apply(EXAMPLE, "create", "--timeout", "300s").code == 0
    assert env.espalier("plan", "-f", "-", stdin=CLUSTER).code == 0
    assert env.apply(CLUSTER, "upgrade", "--keep-release", "--timeout", "300s").code == 0
    assert env.apply(EXAMPLE, "delete", "--timeout", "300s").code == 0


@pytest.mark.demand(L52="a failure")
def test_a_command_ends_where_an_object_is_awaited(env: LocalEnvironment) -> None:
    env.send(CLUSTER)
    waits = env.apply(CLUSTER, "upgrade", "--keep-release", "--timeout", "300s")
    assert waits.code == 1, waits
    assert "MissingDependentObjects: spec.datacenterRef: waiting for DockerDatacenterConfig garden" in waits.err
    assert env.apply(EXAMPLE, "upgrade", "--keep-release", "--timeout", "300s").code == 0
    assert env.apply(EXAMPLE, "delete", "--timeout", "300s").code == 0
