"""Clusters upgraded in place by the program that runs on real nodes: processes, real time, simulated Cluster API."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from espalier.api.core import CONFIG_MAP, NODE, POD
from espalier.api.eksa.upgrades import MachineDeploymentUpgrade, NodeUpgrade
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.kube.client import Client, PatchType
from espalier.kube.objects import Object
from espalier.kube.transports.wire import ADMIN, Request
from espalier.runtime.clock import SystemClock
from espalier.simulator.controller import Timing
from espalier.simulator.hosts.programs import HASH
from tests.support.environments.in_place_environment import (
    NEW,
    identities,
    machines,
    marks,
    reach,
    ready,
    spec,
    told,
    until_so,
)
from tests.support.environments.managed_environment import ManagedEnvironment, managed_environment
from tests.support.environments.simulated_pods import processes
from tests.support.objects.shown_pods import shown
from tests.support.waiting import eventually

pytestmark = pytest.mark.embedded

ETCD = "v3.6.8"


@asynccontextmanager
async def garden(home: Path) -> AsyncIterator[ManagedEnvironment]:
    """A cluster of one control plane node and one worker, all of it to be upgraded in place."""
    async with managed_environment(SystemClock(), disks=home, timing=Timing(boot=0.05)) as env:
        await env.apply(**spec(1, 1))
        await env.until_ready()
        yield env


@pytest.mark.demand("U46")
@pytest.mark.soak
async def test_killed_program_still_upgrades_the_cluster(tmp_path: Path) -> None:
    async with garden(tmp_path) as env:
        before = await identities(env)
        plane = (await machines(env, control_plane=True))[0].name
        await env.change(kubernetesVersion="1.36")

        pod = await until_pod(env, plane, lambda tree: "kubeadm-upgrader" in running(tree))
        await kill(tmp_path, pod)
        name = f"{plane}-node-upgrader"
        failed = await until_so(
            env,
            NodeUpgrade.resource,
            name,
            lambda node_upgrade: ready(node_upgrade)["reason"] == "UpgradingKubeadmFailed",
        )
        assert "exit code 137" in ready(failed)["message"]
        await reach(env).client.delete(POD, pod.name, SYSTEM_NAMESPACE)
        await env.until_ready()

        assert await identities(env) == before
        assert await env.versions() == [NEW] * 2
        assert await marks(env) == []
        for node in (await reach(env).client.list(NODE)).items:
            assert not node.tree["spec"].get("unschedulable")
            assert node.tree["status"]["nodeInfo"]["containerRuntimeVersion"] == "containerd://2.3.7"
        images = await system_images(env)
        assert images["etcd"].partition("-")[0] == ETCD
        assert {images[name] for name in ("kube-apiserver", "kube-scheduler", "kube-proxy")} == {NEW}
        assert not list(tmp_path.glob("nodes/*/*/var/lib/espalier-upgrade"))


@pytest.mark.soak
async def test_nodes_and_pods_are_shown_as_after_creation(tmp_path: Path) -> None:
    async with garden(tmp_path) as env:
        workload = reach(env).client
        created = await settled(workload)

        async def as_created(after: str) -> None:
            def different(value: dict[str, Any]) -> dict[str, Any]:
                return {name: (created.get(name), value.get(name)) for name in {*created, *value}}

            async def changed() -> dict[str, Any]:
                pairs = different(await shown(workload))
                return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}

            await eventually(changed, lambda value: not value, told=lambda: f"after {after}")

        await env.change(kubernetesVersion="1.36")
        await env.until_ready()
        await as_created("an upgrade in place")

        plane = {"count": 1, "upgradeRolloutStrategy": {"type": "InPlace"}}
        policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: None}]\n"
        await env.change(controlPlaneConfiguration={**plane, "auditPolicyContent": policy})
        await env.until_ready()
        await as_created("a change of files in place")

        for pod in (await workload.list(POD, "kube-system")).items:
            await workload.delete(POD, pod.name, pod.namespace)
        await as_created("the deletion of every pod")

        for node in (await workload.list(NODE)).items:
            for cordoned in (True, None):
                spec_ = {"spec": {"unschedulable": cordoned}}
                await workload.patch(NODE, node.name, patch=spec_, type=PatchType.MERGE)
        await as_created("cordon and uncordon")


async def settled(workload: Client) -> dict[str, Any]:
    """As kubectl shows a new cluster, once every pod was reported."""
    return await eventually(
        lambda: shown(workload),
        lambda value: (
            "pod kube-dns" in value
            and all(item[0][0] != "0" for name, item in value.items() if name.startswith("pod "))
        ),
    )


@pytest.mark.soak
async def test_flags_and_audit_policy_are_in_force_on_nodes(tmp_path: Path) -> None:
    async with managed_environment(SystemClock(), disks=tmp_path, timing=Timing(boot=0.05)) as env:
        await env.apply(**spec(1, 1, eksaVersion="v0.24.2"))
        await env.until_ready()
        before = await identities(env)
        await env.change(eksaVersion="v0.25.1")
        await env.until_ready()
        await env.change(eksaVersion="v0.26.0")
        await env.until_ready()

        [plane] = tmp_path.glob("nodes/*/garden-[!m]*")
        manifest = plane / "etc/kubernetes/manifests/kube-apiserver.yaml"
        assert "--service-account-extend-token-expiration=false" in manifest.read_text()
        flags = [path.read_text() for path in tmp_path.glob("nodes/*/*/var/lib/kubelet/kubeadm-flags.env")]
        assert len(flags) == 2
        assert all("--tls-min-version=VersionTLS12" in text for text in flags)

        hashes = await config_hashes(env)
        policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: None}]\n"
        await env.change(
            controlPlaneConfiguration={
                "count": 1,
                "upgradeRolloutStrategy": {"type": "InPlace"},
                "auditPolicyContent": policy,
            }
        )
        await env.until_ready()
        file = plane / "etc/kubernetes/audit-policy.yaml"
        assert (file.read_text(), file.stat().st_mode & 0o777) == (policy, 0o600)
        changed = {name for name, hash_ in (await config_hashes(env)).items() if hash_ != hashes.get(name)}
        assert changed == {"kube-apiserver"}, "it alone mounts the policy, and was started anew"
        assert await identities(env) == before
        assert await marks(env) == []
        assert not list(tmp_path.glob("nodes/*/*/var/lib/espalier-upgrade"))


async def config_hashes(env: ManagedEnvironment) -> dict[str, str]:
    """The config hash from which the kubelet started each static pod."""
    pods = (await reach(env).client.list(POD, "kube-system", labels="tier=control-plane")).items
    return {pod.metadata.labels["component"]: pod.metadata.annotations.get(HASH, "") for pod in pods}


@pytest.mark.demand("U56", "U58", "U61", "U62")
@pytest.mark.soak
async def test_worker_failing_at_kubeadm_is_reported_at_once(
    tmp_path: Path,
) -> None:
    async with garden(tmp_path) as env:
        worker = (await machines(env, control_plane=False))[0].name
        await env.change(kubernetesVersion="1.36")
        await until_pod(env, worker, lambda tree: bool(running(tree)))
        faults = next(tmp_path.glob(f"nodes/*/{worker}-*/var/lib/simulated-node")) / "faults.json"
        faults.write_text(json.dumps({"kubeadm": "etcd cluster is not healthy"}))

        pod = await until_pod(env, worker, lambda tree: exit_code(tree, "kubeadm-upgrader") == 1)
        cluster = await env.until(lambda item: "etcd cluster is not healthy" in told(item, "WorkersReady"))
        assert "step kubeadm-upgrader failed" in told(cluster, "WorkersReady")
        levels: dict[str, Resource] = {
            "garden-md-0-md-upgrade": MachineDeploymentUpgrade.resource,
            f"{worker}-node-upgrader": NodeUpgrade.resource,
        }
        for name, resource in levels.items():
            system_namespace = await env.client.get(resource, name, SYSTEM_NAMESPACE)
            assert "etcd cluster is not healthy" in ready(system_namespace.tree)["message"]
        assert "simulated fault" in await log(env, pod, "kubeadm-upgrader")

        faults.unlink()
        await reach(env).client.delete(POD, pod.name, SYSTEM_NAMESPACE)
        await env.until_ready()
        assert await env.versions() == [NEW] * 2
        assert await marks(env) == []


@pytest.mark.demand("U52")
async def test_upgrader_image_of_other_version_does_nothing(tmp_path: Path) -> None:
    async with garden(tmp_path) as env:
        worker = (await machines(env, control_plane=False))[0].name
        images = (await env.client.get(CONFIG_MAP, "in-place-upgrade", SYSTEM_NAMESPACE)).tree["data"]
        data: Tree = {"data": {"v1.35.9-eks-1-35-9": images[NEW]}}
        name = "in-place-upgrade"
        await env.client.patch(CONFIG_MAP, name, SYSTEM_NAMESPACE, patch=data, type=PatchType.MERGE)
        spec_ = {"machine": {"name": worker}, "kubernetesVersion": "v1.35.9-eks-1-35-9", "nodeType": "Worker"}
        body = {"metadata": {"name": "odd", "namespace": SYSTEM_NAMESPACE}, "spec": spec_}
        await env.client.create(NodeUpgrade.resource, body)

        failed = await until_so(
            env,
            NodeUpgrade.resource,
            "odd",
            lambda node_upgrade: ready(node_upgrade)["reason"] == "CopyingComponentsFailed",
        )
        assert f"the upgrader image has Kubernetes {NEW}" in ready(failed)["message"]
        assert "correct the image for v1.35.9-eks-1-35-9" in ready(failed)["message"]
        assert not list(tmp_path.glob("nodes/*/*/var/lib/espalier-upgrade"))


def states(pod: Tree) -> dict[str, Tree]:
    """State by container of a pod."""
    status = pod.get("status") or {}
    results = (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ()))
    return {item["name"]: item["state"] for item in results}


def running(pod: Tree) -> list[str]:
    """The containers that run now."""
    return [name for name, state in states(pod).items() if "running" in state]


def exit_code(pod: Tree, container: str) -> int | None:
    """How a container has ended, None as long as it has not."""
    code: int | None = states(pod).get(container, {}).get("terminated", {}).get("exitCode")
    return code


async def until_pod(env: ManagedEnvironment, node: str, is_so: Callable[[Tree], bool]) -> Object:
    """The upgrader pod of a node, once it is as described."""
    workload = reach(env)
    changed = asyncio.Event()
    env.workloads.subscribe(lambda _cluster, _object: changed.set())
    async with asyncio.timeout(120):  # a whole node goes before, on a machine that does other things too
        while True:
            changed.clear()
            result = workload.object(POD, Key(SYSTEM_NAMESPACE, f"{node}-node-upgrader"))
            if result is not None and is_so(result.tree):
                return result
            await changed.wait()


async def kill(home: Path, pod: Object) -> None:
    """Kill what runs of a pod, as soon as something does."""
    for process in await eventually(lambda: processes(home, pod.metadata.uid), every=0.01):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


async def system_images(env: ManagedEnvironment) -> dict[str, str]:
    """Tags of the images of the system's containers."""
    pods = (await reach(env).client.list(POD, "kube-system")).items
    containers = [pod.tree["spec"]["containers"][0] for pod in pods]
    return {container["name"]: container["image"].rpartition(":")[2] for container in containers}


async def log(env: ManagedEnvironment, pod: Object, container: str) -> str:
    """The output of `kubectl logs`."""
    path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/log"
    answer = await reach(env).server.serve(Request("GET", path, {"container": container}), ADMIN)
    return answer.body.decode()
