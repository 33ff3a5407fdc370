"""One fault after the other while two real nodes are upgraded in place: a sample of what simulations show."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from espalier.realnodes.nspawn.system import processes
from espalier.realnodes.nspawn.system.helper_processes import BalancerProcess
from espalier.realnodes.nspawn.system.state import State
from espalier.upgrader import contents
from espalier.upgrader.contents import WORK, Contents
from espalier.upgrader.files import STAGED
from tests.support.environments import workload_use as use
from tests.support.environments.in_place_on_nodes import inside, nothing_is_left, seen
from tests.support.environments.node_versions import NEW, NEWER, OLD, distribution
from tests.support.environments.real_environment import READY_SECONDS, RealEnvironment, real_environment, why_not
from tests.support.environments.real_node import BIN, OTHER_BUILDS, PLUGINS, Host
from tests.support.providers.node_manifests import CLUSTER, manifest
from tests.support.servers.kubectl import Kubectl

WHY_NOT = why_not(OLD, NEW)

pytestmark = [pytest.mark.nodes, pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)]

FOLDERS = {"kubernetes": BIN, "containerd": BIN, "cni-plugins": PLUGINS}
"""Where the programs of each component lie on our nodes."""
AT_WORK = f"{WORK}/{NEW}-{distribution(NEWER)}"
SYSTEM = ("-n", "eksa-system")
REASON = '{.status.conditions[?(@.type=="Ready")].reason}'
CUT = 20.0
"""Seconds for which the way to the workload API is cut: twice as long as a connection is waited for."""


@pytest.mark.demand("U38", "U45", "U46", "U59")
async def test_both_nodes_are_upgraded_whatever_breaks(tmp_path: Path) -> None:
    async with real_environment(tmp_path) as env:
        await env.apply(manifest(1, in_place=True))
        await env.ready("garden")
        workload = await env.workload("garden")
        await use.has_nodes(workload, control_planes=1, workers=1, version=OLD)
        await use.carries_pods(workload)
        plane, worker = sorted([node["name"] for node in await env.nodes()], key=lambda name: "-md-" in name)
        for name in (plane, worker):
            await inside(env, name, "sh", "-c", OTHER_BUILDS)
        before = await seen(env, workload)
        await env.change(kubernetesVersion=NEWER)

        carried = await program_killed_while_it_replaces(env, plane)
        await manager_killed_while_a_step_runs(env, Host.find(env, plane))
        await pod_deleted_while_a_step_runs(env, workload, worker)
        await kubelet_away_while_a_step_runs(workload, env, worker)
        await way_to_the_api_cut_while_a_step_runs(env, Host.find(env, worker))

        await env.ready("garden")
        assert await seen(env, workload) == before
        await use.has_nodes(workload, control_planes=1, workers=1, version=NEW)
        await use.carries_pods(workload)
        for name in (plane, worker):
            await is_whole(env, name, carried)
        await nothing_is_left(env.management, workload)


async def program_killed_while_it_replaces(env: RealEnvironment, node: str) -> Contents:
    """Of containerd's programs some are new and some are old then, each whole; told, and tried again, it goes on.

    Returns what the image carries.
    """
    host = Host.find(env, node)
    old = {name: host.checksum(f"{BIN}/{name}") for name in ("containerd", "containerd-shim-runc-v2", "ctr")}
    first = asyncio.create_task(host.appears(f"{BIN}/.containerd{STAGED}", within=READY_SECONDS))
    await host.appears(f"{AT_WORK}/containerd.begun", within=READY_SECONDS)
    program = host.at_work("containerd")
    assert program is not None
    processes.stop(program, signal.SIGSTOP)  # so that it is not through before it is killed
    carried = contents.read(Path("/proc", str(program.pid), "root", contents.IMAGE_FOLDER))
    processes.stop(program, signal.SIGCONT)
    await first
    processes.stop(program)
    await processes.ended(program)
    assert host.place(f"{AT_WORK}/containerd.begun").exists(), "it was at it"
    for name, file in carried.programs("containerd").items():
        assert host.checksum(f"{BIN}/{name}") in (old[name], file.checksum)

    upgrade = f"{node}-node-upgrader"
    await told(env.management, node, "UpgradingContainerdFailed")
    path = '{.status.conditions[?(@.type=="ControlPlaneReady")].message}'
    message = await env.management("get", CLUSTER, "-o", f"jsonpath={path}")
    assert f"step containerd-upgrader failed on node {node}: " in message
    assert f"espalier upgrades retry {upgrade}" in message
    code, _, complaint = await env.espalier("upgrades", "retry", upgrade)
    assert code == 0, complaint
    return carried


async def manager_killed_while_a_step_runs(env: RealEnvironment, host: Host) -> None:
    """The step goes on without it, and the next manager finds it there."""
    await host.appears(f"{BIN}/.kubeadm{STAGED}", within=READY_SECONDS)
    program = host.at_work("kubeadm")
    assert program is not None
    await env.kill()
    assert program.alive
    await env.up()


async def pod_deleted_while_a_step_runs(env: RealEnvironment, workload: Kubectl, node: str) -> None:
    """Another one is made, without anybody asking for it."""
    host, pod = Host.find(env, node), f"pods/{node}-node-upgrader"
    await host.appears(WORK, within=READY_SECONDS)
    assert host.at_work("copy") is not None
    uid = await workload("get", pod, *SYSTEM, "-o", "jsonpath={.metadata.uid}")
    await workload("delete", pod, *SYSTEM)
    await workload("wait", "--for=create", pod, *SYSTEM, "--timeout=60s")
    assert await workload("get", pod, *SYSTEM, "-o", "jsonpath={.metadata.uid}") != uid


async def kubelet_away_while_a_step_runs(workload: Kubectl, env: RealEnvironment, node: str) -> None:
    """The step ends and nobody hears of it; its kubelet, back again, tells, and the next step begins."""
    host = Host.find(env, node)
    await host.appears(f"{BIN}/.kubeadm{STAGED}", within=READY_SECONDS)
    assert host.at_work("kubeadm") is not None
    await host.run("systemctl", "stop", "kubelet")
    await workload("wait", f"node/{node}", "--for=condition=Ready=Unknown", f"--timeout={READY_SECONDS}s")
    reason = await env.management("get", f"nodeupgrades/{node}-node-upgrader", *SYSTEM, "-o", f"jsonpath={REASON}")
    assert reason == "UpgradingKubeadm"
    await host.run("systemctl", "start", "kubelet")


async def way_to_the_api_cut_while_a_step_runs(env: RealEnvironment, host: Host) -> None:
    """Neither the manager nor the new kubelet reaches the API server; the step waits for it."""
    balancer = BalancerProcess(State(env.home.nodes)).process
    assert balancer is not None
    await host.appears(f"{AT_WORK}/kubelet.begun", within=READY_SECONDS)
    program = host.at_work("kubelet")
    assert program is not None
    processes.stop(balancer, signal.SIGSTOP)
    try:
        await asyncio.sleep(CUT)  # nothing to wait for: that is how long the fault lasts
        assert program.alive, "the new kubelet could not tell that the node is ready"
    finally:
        processes.stop(balancer, signal.SIGCONT)


async def told(management: Kubectl, node: str, reason: str) -> None:
    """Wait until the node's upgrade gives this reason for not being done."""
    upgrade = f"nodeupgrades/{node}-node-upgrader"
    await management("wait", upgrade, *SYSTEM, f"--for=jsonpath={REASON}={reason}", f"--timeout={READY_SECONDS}s")


async def is_whole(env: RealEnvironment, node: str, carried: Contents) -> None:
    """Every program of the node is what the image carries, and the services run by them."""
    host = Host.find(env, node)
    results = {}
    for name in carried.files:
        component, _, program = name.partition("/")
        results[name] = host.checksum(f"{FOLDERS[component]}/{program}")
    assert results == {name: file.checksum for name, file in carried.files.items()}
    for folder in (BIN, PLUGINS):
        assert [name for name in os.listdir(host.place(folder)) if name.endswith(STAGED)] == []
    assert "espalier-upgrade" not in await inside(env, node, "ls", "/var/lib", "/run")
    for service, name in (("containerd", "containerd/containerd"), ("kubelet", "kubernetes/kubelet")):
        pid = (await inside(env, node, "systemctl", "show", service, "--property=MainPID", "--value")).strip()
        runs = await inside(env, node, "sha256sum", f"/proc/{pid}/exe")
        assert runs.split()[0] == carried.files[name].checksum
