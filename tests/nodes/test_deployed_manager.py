"""The manager as users deploy it: its image, and the Deployment of `espalier manifests`, in a cluster of real nodes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml

from espalier.api.eksa.vocabulary.group import MANAGER as LEASE
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.cli.install import manifests
from espalier.clusters.design.names import DEFAULT_WORKERS
from espalier.kube.client import Client
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.transports.http import HttpTransport
from espalier.providers.kinds import KINDS
from espalier.releases import Releases
from tests.support.environments import manager_image
from tests.support.environments.node_versions import NEW, NEWER
from tests.support.environments.prepared_cluster import prepare
from tests.support.environments.real_environment import RealEnvironment, Tree, real_environment, why_not
from tests.support.environments.real_node import Host
from tests.support.histories import kubectl_story as story
from tests.support.providers.node_manifests import manifest
from tests.support.servers.kubectl import Kubectl

MISSING = why_not(NEW) or manager_image.why_not()
NAMESPACE = ("-n", SYSTEM_NAMESPACE)
LABEL = f"app.kubernetes.io/name={manifests.NAME}"

pytestmark = [pytest.mark.nodes, pytest.mark.skipif(bool(MISSING), reason=MISSING)]


async def test_deployed_replica_replaces_killed_leader(home: Path, tmp_path: Path) -> None:
    archive = tmp_path / "manager.tar"
    manager_image.build(archive)
    async with real_environment(home) as env:
        await env.apply(manifest(1, kubernetes=NEWER))
        await env.ready("garden")
        cluster = await env.workload("garden")
        for node in await env.nodes():
            await imported(env, node["name"], archive)
        await prepared(env)
        code, installed, complaint = await env.espalier("manifests", "--image", manager_image.TAG)
        assert code == 0, complaint
        await cluster("apply", "-f", "-", stdin=installed)
        await cluster("rollout", "status", f"deployment/{manifests.NAME}", *NAMESPACE, "--timeout=300s")

        pods = (await cluster.tree("pods", "-l", LABEL, *NAMESPACE))["items"]
        assert len(pods) == 2
        await runs_as_nobody_who_may_do_nothing(env, pods)
        await asks(cluster)
        first = await leader(cluster, among=pods)
        await cluster("apply", "-f", str(story.EXAMPLE))
        await makes(cluster, "garden")

        await kill(env, next(pod for pod in pods if first.startswith(pod["metadata"]["name"])))
        await cluster(
            "wait", f"lease/{LEASE}", *NAMESPACE, "--for=jsonpath={.spec.leaseTransitions}=1", "--timeout=120s"
        )
        assert await leader(cluster, among=pods) != first
        await asks(cluster)
        await cluster("apply", "-f", "-", stdin=story.EXAMPLE.read_text().replace("garden", "orchard"))
        await makes(cluster, "orchard")
        # Who was killed comes back, and is ready to take over in turn.
        await cluster("rollout", "status", f"deployment/{manifests.NAME}", *NAMESPACE, "--timeout=120s")


async def prepared(env: RealEnvironment) -> None:
    """Of Cluster API only the kinds are there: what the manager writes is all that counts. Releases, and the record."""
    kubeconfig = Kubeconfig.load([env.environment.home / "garden.kubeconfig"])
    client = Client(HttpTransport(kubeconfig.context(), environment={}), field_manager="journey", user_agent="journey")
    await prepare(client, Releases.load(), KINDS)
    await client.close()


async def imported(env: RealEnvironment, node: str, archive: Path) -> None:
    """The image is there on a node, as if it had been pulled."""
    host, name = Host.find(env, node), "/var/tmp/manager.tar"
    shutil.copyfile(archive, host.place(name))
    await host.run("ctr", "--namespace", "k8s.io", "images", "import", name)


async def runs_as_nobody_who_may_do_nothing(env: RealEnvironment, pods: list[Tree]) -> None:
    """Check the kernel's record of the processes: user, no capabilities, no new rights, system calls filtered."""
    for pod in pods:
        facts = process(env, pod)
        assert set(facts["Uid"].split()) == set(facts["Gid"].split()) == {str(manager_image.USER)}
        assert {int(facts[name], 16) for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
        assert (facts["NoNewPrivs"], facts["Seccomp"]) == ("1", "2")


def process(env: RealEnvironment, pod: Tree) -> dict[str, str]:
    """/proc/PID/status of the container's first process, with its number on this machine as `Host`."""
    host = Host.find(env, pod["spec"]["nodeName"])
    container = pod["status"]["containerStatuses"][0]["containerID"].rpartition("/")[2]
    number = host.place(f"/run/containerd/io.containerd.runtime.v2.task/k8s.io/{container}/init.pid").read_text()
    lines = host.place(f"/proc/{number}/status").read_text().splitlines()
    facts = dict(line.partition(":\t")[::2] for line in lines)
    return facts | {"Number": number, "Node": pod["spec"]["nodeName"]}


async def kill(env: RealEnvironment, pod: Tree) -> None:
    """`kill -9` of the manager on its node, without a warning."""
    facts = process(env, pod)
    await Host.find(env, facts["Node"]).run("kill", "-9", facts["Number"])


async def leader(cluster: Kubectl, *, among: list[Tree]) -> str:
    """Who holds the Lease: a process of one of these pods. One that was started again has another identity."""
    holder = str((await cluster.tree("lease", LEASE, *NAMESPACE))["spec"]["holderIdentity"])
    assert holder.partition("_")[0] in {pod["metadata"]["name"] for pod in among}
    return holder


async def asks(cluster: Kubectl) -> None:
    """The API server reaches the webhooks through their Service: they fill in what was left out."""
    wished = next(yaml.safe_load_all(story.EXAMPLE.read_text().replace("garden", "weed")))
    del wished["spec"]["workerNodeGroupConfigurations"][0]["count"]
    output = await cluster("apply", "--dry-run=server", "-o", "json", "-f", "-", stdin=json.dumps(wished))
    assert json.loads(output)["spec"]["workerNodeGroupConfigurations"][0]["count"] == DEFAULT_WORKERS


async def makes(cluster: Kubectl, name: str) -> None:
    """The leader writes what Cluster API is to make."""
    for kind in ("clusters.cluster.x-k8s.io", "kubeadmcontrolplanes.controlplane.cluster.x-k8s.io"):
        await cluster("wait", kind, name, *NAMESPACE, "--for=create", "--timeout=60s")
