"""An upgrader pod on a simulated node: its containers are processes, which run the program that runs on real nodes."""

from __future__ import annotations

import json
import random
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from espalier.api.core import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, CONFIG_MAP, NODE, POD, SERVICE_ACCOUNT
from espalier.api.meta import Tree
from espalier.cli.local.images.upgrader_images import program
from espalier.kube.client import PatchType
from tests.support.environments.simulated_pods import NODE_NAME, Environment, running_pods

pytestmark = [pytest.mark.embedded, pytest.mark.usefixtures("quick_upgraders")]

OLD, NEW = "v1.35.4", "v1.36.3"
IMAGE = f"example.org/upgrader:{NEW}"
KUBEADM = f"kubeadm --role first-control-plane --kubernetes-version {NEW}"
STEPS = {
    "components-copier": "copy",
    "containerd-upgrader": "containerd",
    "cni-plugins-upgrader": "cni-plugins",
    "kubeadm-upgrader": KUBEADM,
    "drainer": "drain --timeout 20",
    "kubelet-kubectl-upgrader": "kubelet",
    "uncordoner": "uncordon",
}
CONFIGURATION = {
    "imageRepository": "example.org",
    "etcd": {"local": {"imageTag": "3.6.8-0"}},
    "kubernetesVersion": OLD,
}
VOLUMES = [{"name": "host", "hostPath": {"path": "/", "type": "Directory"}}]
ACCOUNT = "node-1-node-upgrader"


@asynccontextmanager
async def node(home: Path) -> AsyncIterator[Environment]:
    """A control plane node of the old version, with a pod of a Deployment on it."""
    upgrader = program(home / "images", NEW)
    async with running_pods(home, lambda image: upgrader if image == IMAGE else None) as here:
        client = here.workload.client
        await client.patch(
            NODE,
            NODE_NAME,
            patch={"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]}},
            type=PatchType.MERGE,
            subresource="status",
        )
        await client.create(
            CONFIG_MAP,
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "kubeadm-config", "namespace": "kube-system"},
                "data": {"ClusterConfiguration": json.dumps(CONFIGURATION)},
            },
        )
        for name, image in {"etcd": "example.org/etcd:3.6.6-0", "kube-apiserver": f"example.org/server:{OLD}"}.items():
            await client.create(POD, static_pod(name, image))
        for body in rights():
            resource = {"ServiceAccount": SERVICE_ACCOUNT, "ClusterRole": CLUSTER_ROLE}.get(body["kind"])
            await client.create(resource or CLUSTER_ROLE_BINDING, body)
        yield here


def static_pod(name: str, image: str) -> Tree:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{name}-{NODE_NAME}",
            "namespace": "kube-system",
            "annotations": {"kubernetes.io/config.mirror": "1"},
        },
        "spec": {"nodeName": NODE_NAME, "hostNetwork": True, "containers": [{"name": name, "image": image}]},
    }


def rights() -> Sequence[Tree]:
    """As the controller gives them: its own node, and evictions."""
    group = "rbac.authorization.k8s.io"
    meta = {"name": ACCOUNT}
    rules = [
        {"apiGroups": [""], "resources": ["nodes"], "resourceNames": [NODE_NAME], "verbs": ["get", "patch"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
    ]
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {**meta, "namespace": "default"}},
        {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": meta, "rules": rules},
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": meta,
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": ACCOUNT},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": "default"}],
        },
    ]


def container(name: str, words: str) -> Tree:
    api_only = name in ("drainer", "uncordoner")
    return {
        "name": name,
        "image": IMAGE,
        "command": ["upgrader", *words.split()],
        "env": [{"name": "NODE_NAME", "value": NODE_NAME}, {"name": "KUBERNETES_VERSION", "value": NEW}]
        + ([] if api_only else [{"name": "HOST_ROOT", "value": "/host"}]),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [] if api_only else [{"name": "host", "mountPath": "/host"}],
    }


async def upgrade(here: Environment, name: str) -> None:
    """Make an upgrader pod."""
    await here.make(
        name,
        [container(step, words) for step, words in STEPS.items()],
        container("done", "done"),
        serviceAccountName=ACCOUNT,
        volumes=VOLUMES,
    )


def messages(status: Tree) -> dict[str, str]:
    """Termination message by container."""
    return {
        item["name"]: item["state"].get("terminated", {}).get("message", "")
        for item in (*status["initContainerStatuses"], *status["containerStatuses"])
    }


async def kubelet_version(here: Environment) -> str:
    stored = await here.workload.client.get(NODE, NODE_NAME)
    return str(stored.tree["status"]["nodeInfo"]["kubeletVersion"])


@pytest.mark.demand("U36", "U37")
@pytest.mark.soak
async def test_a_node_is_upgraded_by_the_program_in_a_pod(tmp_path: Path) -> None:
    async with node(tmp_path) as here:
        await upgrade(here, "upgrader")
        status = await here.ended("upgrader")

        assert status["phase"] == "Succeeded", messages(status)
        assert messages(status)["kubelet-kubectl-upgrader"] == f"kubelet {NEW} runs, and the node is ready"
        assert await kubelet_version(here) == NEW
        stored = await here.workload.client.get(NODE, NODE_NAME)
        assert stored.tree["status"]["nodeInfo"]["containerRuntimeVersion"] == "containerd://2.3.7"
        assert not stored.tree["spec"].get("unschedulable")
        etcd = await here.workload.client.get(POD, f"etcd-{NODE_NAME}", "kube-system")
        assert etcd.tree["spec"]["containers"][0]["image"] == "example.org/etcd:3.6.8-0"
        assert "SUCCESS! A control plane node" in await here.log("upgrader", "kubeadm-upgrader")
        assert not list(tmp_path.glob("nodes/*/*/var/lib/espalier-upgrade"))


@pytest.mark.demand("U46", "U59", "U61")
async def test_next_pod_finishes_once_the_cause_is_removed(tmp_path: Path) -> None:
    async with node(tmp_path) as here:
        await here.make(
            "first", [], container("components-copier", "copy"), serviceAccountName=ACCOUNT, volumes=VOLUMES
        )
        await here.ended("first")
        faults = next(tmp_path.glob("nodes/*/*/var/lib/simulated-node")) / "faults.json"
        faults.write_text('{"kubeadm": "etcd cluster is not healthy"}')
        await upgrade(here, "upgrader")
        status = await here.ended("upgrader")

        assert status["phase"] == "Failed"
        assert "kubeadm upgrade apply exited 1" in messages(status)["kubeadm-upgrader"]
        assert "etcd cluster is not healthy" in await here.log("upgrader", "kubeadm-upgrader")
        assert await kubelet_version(here) == OLD

        faults.unlink()
        await upgrade(here, "again")
        assert (await here.ended("again"))["phase"] == "Succeeded"
        assert await kubelet_version(here) == NEW


@pytest.mark.soak
async def test_killed_processes_leave_an_upgradable_node(tmp_path: Path) -> None:
    """Each step is shot at once, a random while after its start, until it is done."""
    chance = random.Random(7)
    async with node(tmp_path) as here:
        for step in (*STEPS, "done"):
            for shot in range(2):
                name = f"{step}-{shot}"
                words = STEPS.get(step, "done")
                await here.make(name, [], container(step, words), serviceAccountName=ACCOUNT, volumes=VOLUMES)
                if not shot:
                    await here.shoot(name, after=chance.uniform(0.0, 0.25))
                status = await here.ended(name)
                code = status["containerStatuses"][0]["state"]["terminated"]["exitCode"]
                assert code == 0 or (not shot and code == 128 + signal.SIGKILL), (name, said_main(status))
        assert await kubelet_version(here) == NEW
        stored = await here.workload.client.get(NODE, NODE_NAME)
        assert not stored.tree["spec"].get("unschedulable")
        assert not list(tmp_path.glob("nodes/*/*/var/lib/espalier-upgrade"))


def said_main(status: Tree) -> str:
    return str(status["containerStatuses"][0]["state"])


@pytest.mark.demand("U43", "U44")
async def test_drain_has_rights_on_its_node_and_evictions(tmp_path: Path) -> None:
    async with node(tmp_path) as here:
        await here.workload.client.delete(CLUSTER_ROLE_BINDING, ACCOUNT)
        await here.make("drain", [], container("drainer", "drain --timeout 1"), serviceAccountName=ACCOUNT)
        status = await here.ended("drain")

        assert 'cannot get resource "nodes"' in said_main(status)
