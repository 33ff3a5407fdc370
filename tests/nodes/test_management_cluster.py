"""A management cluster of real nodes: from a bootstrap to a cluster that manages itself and others, and to nothing."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import yaml

from espalier.cli.management.components.component_versions import COMPONENTS
from espalier.clusterapi.contract import CLUSTER_NAME_LABEL, CONTROL_PLANE_LABEL
from tests.support.environments import manager_image
from tests.support.environments import workload_use as use
from tests.support.environments.footprint import Footprint, footprint
from tests.support.environments.node_versions import NEW, NEWER, OLD, OLDER
from tests.support.environments.real_environment import (
    ADDRESSES,
    READY_SECONDS,
    RealEnvironment,
    Tree,
    environment_in,
    made,
    real_environment,
    why_not,
)
from tests.support.providers.node_manifests import manifest
from tests.support.servers.kubectl import Kubectl

MISSING = why_not(NEW, watchers=256) or manager_image.why_not()
WITHOUT_BEFORE = why_not(OLD)
EXAMPLE = Path(__file__).parents[2] / "examples" / "management.yaml"
NAME = "management"
CLUSTERS = "clusters.anywhere.eks.amazonaws.com"

pytestmark = [pytest.mark.nodes, pytest.mark.skipif(bool(MISSING), reason=MISSING)]


def management(workers: int, kubernetes: str = NEWER) -> str:
    """The example, with one control plane node and these workers."""
    documents = list(yaml.safe_load_all(EXAMPLE.read_text()))
    documents[0]["spec"]["kubernetesVersion"] = kubernetes
    documents[0]["spec"]["workerNodeGroupConfigurations"][0]["count"] = workers
    text: str = yaml.safe_dump_all(documents)
    return text


async def command(env: RealEnvironment, *arguments: str, stdin: str = "") -> None:
    """A command that succeeds; prints how long it took."""
    began = time.monotonic()
    code, out, complaint = await env.espalier(*arguments, stdin=stdin)
    print(f"{' '.join(arguments[:2])}: {time.monotonic() - began:.0f} s\n{complaint}")
    assert code == 0, f"{complaint}{out}"


@pytest.mark.demand(L70="on real nodes, with Cluster API's managers as Deployments")
async def test_management_cluster_of_real_nodes_has_a_life(home: Path, clean: Footprint) -> None:
    async with real_environment(home) as env:
        by = ("--bootstrap-kubeconfig", str(env.home.kubeconfig))
        await command(env, "create", "cluster", "-f", "-", *by, stdin=management(1))
        cluster = env.management.with_kubeconfig(home / NAME / f"{NAME}-eks-a-cluster.kubeconfig")
        await manages_itself(env, cluster)
        machines = {node["name"]: node["pid"] for node in await env.nodes()}

        (home / "management.yaml").write_text(management(2))
        kubeconfig = ("--kubeconfig", str(cluster.kubeconfig))
        await command(env, "upgrade", "cluster", "-f", str(home / "management.yaml"), *kubeconfig)
        await use.has_nodes(cluster, control_planes=1, workers=2, version=NEW)
        assert machines.items() <= {node["name"]: node["pid"] for node in await env.nodes()}.items()

        await cluster("apply", "-f", "-", stdin=manifest(1, kubernetes=NEWER, manager=NAME))
        await cluster("wait", "--for=condition=Ready", f"{CLUSTERS}/garden", f"--timeout={READY_SECONDS}s")
        assert {node["cluster"] for node in await env.nodes()} == {NAME, "garden"}
        await cluster("delete", f"{CLUSTERS}/garden", "--wait")
        assert {node["cluster"] for node in await env.nodes()} == {NAME}

        await command(env, "delete", "cluster", NAME, *by, *kubeconfig)
        assert await env.nodes() == []
        assert not (home / "nodes").exists()
    assert made(footprint(home), home) == made(clean, home)


@pytest.mark.skipif(bool(WITHOUT_BEFORE), reason=WITHOUT_BEFORE)
async def test_its_machines_are_replaced_by_newer_ones(home: Path, clean: Footprint) -> None:
    async with real_environment(home) as env:
        by = ("--bootstrap-kubeconfig", str(env.home.kubeconfig))
        await command(env, "create", "cluster", "-f", "-", *by, stdin=management(1, OLDER))
        cluster = env.management.with_kubeconfig(home / NAME / f"{NAME}-eks-a-cluster.kubeconfig")
        await cluster("apply", "-f", "-", stdin=manifest(1, kubernetes=OLDER, manager=NAME))
        await cluster("wait", "--for=condition=Ready", f"{CLUSTERS}/garden", f"--timeout={READY_SECONDS}s")
        before = await env.nodes()

        (home / "management.yaml").write_text(management(1, NEWER))
        kubeconfig = ("--kubeconfig", str(cluster.kubeconfig))
        await command(env, "upgrade", "cluster", "-f", str(home / "management.yaml"), *kubeconfig)
        await use.has_nodes(cluster, control_planes=1, workers=1, version=NEW)
        await cluster("wait", "--for=condition=Available", "deployments", "--all", "-A", f"--timeout={READY_SECONDS}s")
        await manages_itself(env, cluster)
        machines = (await cluster.tree("machines.cluster.x-k8s.io", "-A"))["items"]
        own = [machine["metadata"] for machine in machines if machine["metadata"]["labels"][CLUSTER_NAME_LABEL] == NAME]
        plane, worker = sorted(own, key=lambda item: CONTROL_PLANE_LABEL not in item["labels"])
        node = await cluster.tree("nodes", plane["name"])
        joined = node["metadata"]["creationTimestamp"]
        assert joined <= worker["creationTimestamp"], "the control plane comes first"
        assert of_garden(await env.nodes()) == of_garden(before), "machines of workload clusters stay"

        await cluster("apply", "-f", "-", stdin=manifest(2, kubernetes=OLDER, manager=NAME))
        await cluster("wait", "--for=condition=Ready", f"{CLUSTERS}/garden", f"--timeout={READY_SECONDS}s")
        assert len(of_garden(await env.nodes())) == 3
        await cluster("delete", f"{CLUSTERS}/garden", "--wait")
        await command(env, "delete", "cluster", NAME, *by, *kubeconfig)
        assert await env.nodes() == []
    assert made(footprint(home), home) == made(clean, home)


def of_garden(nodes: list[Tree]) -> dict[str, int]:
    """The first processes of the workload cluster's nodes."""
    return {node["name"]: node["pid"] for node in nodes if node["cluster"] == "garden"}


async def test_one_command_makes_it_and_one_deletes_it(home: Path, clean: Footprint) -> None:
    env = environment_in(home)
    file = home / "management.yaml"
    file.write_text(management(1))
    real = ("--nodes", "real", "--node-addresses", ADDRESSES)
    try:
        await command(env, "create", "cluster", "-f", str(file), *real)
        own = environment_in(env.home.of_management_cluster(NAME).root)
        cluster = own.management.with_kubeconfig(home / NAME / f"{NAME}-eks-a-cluster.kubeconfig")
        assert not own.home.kubeconfig.exists()
        assert not own.home.management.exists()
        await manages_itself(own, cluster)
        await own.kill()
        await cluster("get", "--raw", "/readyz")
        await command(own, "up", "--detach", "--nodes", "real")
        file.write_text(management(2))
        kubeconfig = ("--kubeconfig", str(cluster.kubeconfig))
        await command(env, "upgrade", "cluster", "-f", str(file), *kubeconfig)
        await use.has_nodes(cluster, control_planes=1, workers=2, version=NEW)
    finally:
        await command(env, "delete", "cluster", NAME)
    assert made(footprint(home), home) == made(clean, home)


async def manages_itself(env: RealEnvironment, cluster: Kubectl) -> None:
    """Its Cluster names itself; the programs of Cluster API and ours run in it; the bootstrap has nothing of it."""
    record = await cluster.tree(CLUSTERS, NAME)
    assert record["spec"]["managementCluster"] == {"name": NAME}
    running = {
        (deployment["metadata"]["namespace"], deployment["metadata"]["name"]): deployment["status"]
        for deployment in (await cluster.tree("deployments", "-A"))["items"]
    }
    required = {(part.namespace, part.deployment) for part in COMPONENTS if part.is_required}
    assert required <= running.keys()
    assert all(running[name]["availableReplicas"] for name in required)
    machines = (await cluster.tree("machines.cluster.x-k8s.io", "-A"))["items"]
    assert {machine["metadata"]["name"] for machine in machines} == {node["name"] for node in await env.nodes()}
    if env.home.kubeconfig.exists():  # that of the bootstrap
        assert (await env.management.tree("machines.cluster.x-k8s.io", "-A"))["items"] == []
