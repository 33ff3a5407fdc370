"""A real cluster without spare hardware is upgraded in place, by stock Cluster API and our annotations."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from espalier.api.version_matrix import KUBERNETES
from tests.support.environments import workload_use as use
from tests.support.environments.in_place_on_nodes import UNTOUCHED, inside, seen
from tests.support.environments.node_versions import NEW, NEWER, OLD, image_tags
from tests.support.environments.real_environment import READY_SECONDS, real_environment, why_not
from tests.support.environments.real_node import BIN, OTHER_BUILDS, PLUGINS, Host
from tests.support.providers.node_manifests import CLUSTER, manifest
from tests.support.servers.kubectl import Kubectl, columns
from tests.support.waiting import eventually

WHY_NOT = why_not(OLD, NEW)
OF_RELEASES = why_not("1.35.4")

pytestmark = [pytest.mark.nodes, pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)]

KUBELET_ACCESS = "/etc/kubernetes/kubelet.conf"
OURS = "/etc/sysctl.d/99-ours.conf"
UNCHANGED = ("machines", "nodes", "boots", "first processes")
"""Of all that is seen, what another release leaves as it is."""
STEPS = (
    "CopyingComponents",
    "UpgradingContainerd",
    "UpgradingCNIPlugins",
    "UpgradingKubeadm",
    "UpgradingKubeadmFailed",
    "DrainingNode",
    "UpgradingKubelet",
    "UncordoningNode",
    "CleaningUp",
    "Upgraded",
)
"""The values that `kubectl get nu` may show in its column STEP, in order."""


@pytest.mark.demand(
    "U1",
    "U2",
    "U3",
    "U4",
    "U5",
    "U9",
    "U18",
    "U23",
    "U34",
    "U37",
    "U38",
    "U40",
    "U58",
    "U59",
    "U61",
    "U62",
    "U70",
    "U73",
)
async def test_cluster_without_spare_hardware_is_upgraded(tmp_path: Path) -> None:
    async with real_environment(tmp_path) as env:
        await env.management("apply", "-f", "-", stdin=manifest(1, in_place=True))
        await env.ready("garden")
        workload = await env.workload("garden")
        await use.has_nodes(workload, control_planes=1, workers=1, version=OLD)
        await use.carries_pods(workload)
        await workload("create", "deployment", "web", f"--image={use.PROBE}", "--replicas=2", "--", "/probe", "serve")
        await workload("rollout", "status", "deployment/web", "--timeout=120s")
        plane, worker = sorted([node["name"] for node in await env.nodes()], key=lambda name: "-md-" in name)
        for name in (plane, worker):
            await inside(env, name, "sh", "-c", f"echo vm.swappiness=1 > {OURS}")
        before = await seen(env, workload)

        await inside(env, worker, "mv", KUBELET_ACCESS, f"{KUBELET_ACCESS}.away")  # kubeadm can't do without

        async with followed(env.management) as story:
            await env.change(kubernetesVersion=NEWER)
            await fails_at_kubeadm(env.management, workload, worker)
            await inside(env, worker, "mv", f"{KUBELET_ACCESS}.away", KUBELET_ACCESS)
            await workload("delete", "pod", "-n", "eksa-system", f"{worker}-node-upgrader")
            await env.ready("garden")
            await eventually(lambda: {name for name, step in story.told if step == "Upgraded"}, {plane, worker}.__eq__)

        assert await seen(env, workload) == before
        await use.has_nodes(workload, control_planes=1, workers=1, version=NEW)
        await use.carries_pods(workload)
        for name in (plane, worker):
            assert await inside(env, name, "/usr/local/bin/kubeadm", "version", "--output=short") == f"{NEW}\n"
            assert NEW in await inside(env, name, "/usr/local/bin/kubectl", "version", "--client")
            assert KUBERNETES[NEWER].containerd in await inside(env, name, "/usr/local/bin/containerd", "--version")
            assert await inside(env, name, "cat", OURS) == "vm.swappiness=1\n"
            assert "espalier-upgrade" not in await inside(env, name, "ls", "/var/lib", "/run")
        expected = {name: {tag} for name, tag in image_tags(NEWER).items()}
        # The rollout of CoreDNS ends after the worker accepts pods again.
        await eventually(partial(tags, workload), expected.__eq__, within=120)
        for name in (plane, worker):
            told = story.steps(name)
            assert told == [step for step in STEPS if step in told]
            assert ("UpgradingKubeadmFailed" in told) == (name == worker)
            # Of the kubelet's own step nobody may hear: it ends who would report it, often before that is reported.
            assert {"UpgradingKubeadm", "Upgraded"} <= set(told)
        order = [name for name, _ in story.told]
        assert order == sorted(order, key=[plane, worker].index), "the worker begins when the control plane is done"
        assert await env.management("get", "cpu,mdu,nu", "-A", "--no-headers") == ""


@pytest.mark.demand(U38="another build of containerd, the same Kubernetes")
@pytest.mark.skipif(bool(OF_RELEASES), reason=OF_RELEASES)
async def test_release_with_flags_is_in_force_on_nodes(tmp_path: Path) -> None:
    """v0.25.1 -> v0.26.0: a flag of the API server; then an audit policy: no other machine, no other version."""
    async with real_environment(tmp_path) as env:
        older = manifest(1, kubernetes="1.35", in_place=True)
        older = older.replace("\nspec:\n", "\nspec:\n  eksaVersion: v0.25.1\n", 1)
        await env.management("apply", "-f", "-", stdin=older)
        await env.ready("garden")
        workload = await env.workload("garden")
        plane = next(node["name"] for node in await env.nodes() if "-md-" not in node["name"])
        before = await seen(env, workload)
        flag = "--service-account-extend-token-expiration=false"
        manifest_ = "/etc/kubernetes/manifests/kube-apiserver.yaml"
        assert flag not in await inside(env, plane, "cat", manifest_)

        await env.change(eksaVersion="v0.26.0")
        await env.ready("garden")
        assert flag in await inside(env, plane, "cat", manifest_)
        running = await workload("get", "pods", "-n", "kube-system", "-l", "component=kube-apiserver", "-o", "yaml")
        assert flag in running

        host, programs = Host.find(env, plane), (f"{BIN}/containerd", f"{BIN}/ctr", f"{PLUGINS}/loopback")
        carried = [host.checksum(program) for program in programs]
        await inside(env, plane, "sh", "-c", OTHER_BUILDS)
        assert not set(carried) & {host.checksum(program) for program in programs}
        unchanged = await containers(workload, plane)
        policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: None}]\n"
        await env.change(controlPlaneConfiguration={"auditPolicyContent": policy})
        await env.ready("garden")
        assert await inside(env, plane, "cat", "/etc/kubernetes/audit-policy.yaml") == policy
        annotations = await workload("get", "pods", "-n", "kube-system", "-l", "component=kube-apiserver", "-o", "yaml")
        assert "anywhere.eks.amazonaws.com/restarted-by-upgrade" in annotations
        assert [host.checksum(program) for program in programs] == carried, "containerd comes with the image alone too"
        now = await containers(workload, plane)
        restarted = {name for name in unchanged if now[name] != unchanged[name]}
        assert restarted - await gave_up_leading(workload, plane) == {"kube-apiserver"}
        after = await seen(env, workload)  # but for the CNI, which the release has rolled
        assert {name: after[name] for name in UNCHANGED} == {name: before[name] for name in UNCHANGED}
        await use.has_nodes(workload, control_planes=1, workers=1, version=f"v{KUBERNETES['1.35'].patch}")
        await use.carries_pods(workload)
        assert await env.management("get", "cpu,mdu,nu", "-A", "--no-headers") == ""


async def fails_at_kubeadm(management: Kubectl, workload: Kubectl, node: str) -> None:
    """The node's upgrade stops at kubeadm, and whoever looks at any level is told so at once."""
    upgrade, group = f"nodeupgrades/{node}-node-upgrader", "machinedeploymentupgrades/garden-md-0-md-upgrade"
    await management("wait", "-n", "eksa-system", "--for=create", upgrade, f"--timeout={READY_SECONDS}s")
    pod = f"pods/{node}-node-upgrader"
    await workload("wait", "-n", "eksa-system", "--for=create", pod, "--timeout=60s")

    async def told(kubectl: Kubectl, what: str, path: str, value: str, *namespace: str) -> float:
        await kubectl("wait", what, *namespace, f"--for=jsonpath={path}={value}", f"--timeout={READY_SECONDS}s")
        return time.monotonic()

    system = ("-n", "eksa-system")
    reason, failed = '{.status.conditions[?(@.type=="Ready")].reason}', "UpgradingKubeadmFailed"
    ended, *moments = await asyncio.gather(
        told(workload, pod, "{.status.phase}", "Failed", *system),
        told(management, upgrade, reason, failed, *system),
        told(management, group, reason, failed, *system),
    )
    assert max(moments) - ended < 2
    path = '{.status.conditions[?(@.type=="WorkersReady")].message}'
    message = await management("get", CLUSTER, "-o", f"jsonpath={path}")
    assert f"step kubeadm-upgrader failed on node {node}" in message
    assert KUBELET_ACCESS in message
    assert KUBELET_ACCESS in await workload("logs", *system, pod, "-c", "kubeadm-upgrader")


async def containers(workload: Kubectl, node: str) -> dict[str, str]:
    """Name -> identity of the containers of the system that run on a node, but for CoreDNS, which a drain moves."""
    pods = (await workload.tree("pods", "-n", "kube-system", f"--field-selector=spec.nodeName={node}"))["items"]
    statuses = [status for pod in pods for status in pod["status"]["containerStatuses"]]
    return {status["name"]: status["containerID"] for status in statuses if status["name"] != "coredns"}


async def gave_up_leading(workload: Kubectl, node: str) -> set[str]:
    """Containers that ended by themselves, as their lease ran out while the API server was away on a busy machine."""
    names = set()
    for name in ("kube-controller-manager", "kube-scheduler"):
        _, output, _ = await workload.finish("logs", "-n", "kube-system", f"{name}-{node}", "--previous", "--tail=20")
        if "leaderelection lost" in output.lower():
            names.add(name)
    return names


async def tags(workload: Kubectl) -> dict[str, set[str]]:
    """Tags of the images that the system's containers run, by container."""
    results: dict[str, set[str]] = {}
    for pod in (await workload.tree("pods", "-n", "kube-system"))["items"]:
        for container in pod["spec"]["containers"]:
            if not pod["metadata"]["name"].startswith(UNTOUCHED):
                results.setdefault(container["name"], set()).add(container["image"].rpartition(":")[2])
    return results


@dataclass
class Story:
    """The output of `kubectl get nu --watch`: machine and step, each once."""

    told: list[tuple[str, str]] = field(default_factory=list)

    def hear(self, line: str) -> None:
        """One line of the table."""
        cells = columns(line)[0]
        step = next((cell for cell in cells if cell in STEPS), None)
        if step is not None and (cells[2], step) not in self.told:
            self.told.append((cells[2], step))

    def steps(self, machine: str) -> list[str]:
        """The steps of a machine, in the order in which they were shown."""
        return [step for name, step in self.told if name == machine]


@asynccontextmanager
async def followed(management: Kubectl) -> AsyncIterator[Story]:
    """Somebody who watches NodeUpgrades while the block runs."""
    story = Story()
    async with management.running("get", "nu", "-A", "--watch", "--no-headers") as process:

        async def listen() -> None:
            assert process.stdout is not None
            while line := await process.stdout.readline():
                story.hear(line.decode())

        listening = asyncio.create_task(listen())
        try:
            yield story
        finally:
            listening.cancel()
            await asyncio.wait([listening])
