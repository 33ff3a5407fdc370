"""A real control plane node upgraded in place beside one upgraded by kubeadm and systemctl by hand, on one machine.

Two clusters of one real node each in the environment of `espalier up --nodes real`, one after the other: first by hand,
then by Espalier. Both get the images of the new version from the same registry, and evict nothing.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.measure import arguments, report
from espalier.assets.base import find_base
from espalier.realnodes.nspawn.node_files import PREFLIGHT
from tests.support.environments.real_environment import RealEnvironment, real_environment, why_not
from tests.support.providers.node_manifests import manifest
from tests.support.servers.kubectl import Kubectl

OLD, NEW = "1.35.4", "v1.36.3-eks-1-36-1"
ETCD = ("v3.6.6-eks-1-35-1", "v3.6.8-eks-1-36-1")
FOLDER = "/opt/by-hand"
CONFIG = ("configmap", "kubeadm-config", "--namespace", "kube-system")


async def cluster(env: RealEnvironment, name: str) -> tuple[Kubectl, str]:
    """A cluster of one control plane node and one worker; its kubectl, and the node of its control plane."""
    text = manifest(1, in_place=True).replace("name: garden", f"name: {name}")
    await env.management("apply", "-f", "-", stdin=text)
    await env.ready(name)
    results = [
        node["name"] for node in await env.nodes() if node["cluster"] == name and node["role"] == "control-plane"
    ]
    return await env.workload(name), results[0]


async def by_hand(env: RealEnvironment, workload: Kubectl, node: str) -> dict[str, float]:
    """What somebody does who has read the manual: kubeadm, then the kubelet. Seconds of each part."""

    async def inside(*command: str) -> None:
        code, out, complaint = await env.espalier("nodes", "shell", node, "--", *command)
        if code:
            raise RuntimeError(f"{' '.join(command)}: {out[-2000:]} {complaint}")

    folder = next(Path(item["folder"]) for item in await env.nodes() if item["name"] == node)
    began = time.monotonic()
    program = find_base(NEW.partition("-")[0]).kubeadm.resolve()
    place = folder / "root" / FOLDER.lstrip("/")
    place.mkdir()
    shutil.copy2(program, place / "kubelet")
    (place / "kubeadm").symlink_to("kubelet")
    configuration = await workload("get", *CONFIG, "-o", "yaml")
    gate = "    featureGates:\n      ControlPlaneKubeletLocalMode: true\n"
    await workload("replace", "-f", "-", stdin=configuration.replace(*ETCD).replace(gate, ""))
    checks = ",".join((*PREFLIGHT, "CoreDNSUnsupportedPlugins", "CoreDNSMigration"))
    flags = ("--yes", "--allow-experimental-upgrades", "--force", f"--ignore-preflight-errors={checks}")
    await inside(f"{FOLDER}/kubeadm", "upgrade", "apply", NEW, *flags, "--skip-phases=addon/coredns")
    applied = time.monotonic()
    await inside("mv", f"{FOLDER}/kubelet", "/usr/local/bin/kubelet")
    await inside("systemctl", "restart", "kubelet")
    version = NEW.partition("-")[0]
    told = f"--for=jsonpath={{.status.nodeInfo.kubeletVersion}}={version}"
    await workload("wait", told, f"node/{node}", "--timeout=180s")
    await workload("wait", "--for=condition=Ready", f"node/{node}", "--timeout=180s")
    return {"kubeadm": applied - began, "kubelet": time.monotonic() - applied, "whole": time.monotonic() - began}


async def in_place(env: RealEnvironment, name: str, node: str) -> dict[str, float]:
    """What Espalier does of the same kind: from the change of the Cluster until the node is given back."""
    kubectl = env.management
    upgrade = f"nodeupgrades/{node}-node-upgrader"
    began = time.monotonic()
    resource = f"clusters.anywhere.eks.amazonaws.com/{name}"
    await kubectl("patch", resource, "--type=merge", "-p", '{"spec": {"kubernetesVersion": "1.36"}}')
    marks = {}
    await kubectl("wait", "-n", "eksa-system", "--for=create", upgrade, "--timeout=60s")
    for what, condition in (("kubeadm", "KubeadmUpgraded"), ("kubelet", "KubeletUpgraded"), ("whole", "Ready")):
        waited = ("wait", "-n", "eksa-system", f"--for=condition={condition}", upgrade, "--timeout=600s")
        code, _, complaint = await kubectl.finish(*waited)
        if code and "not found" not in complaint:  # it goes as soon as it is done
            raise RuntimeError(complaint)
        marks[what] = time.monotonic()
    return {
        "kubeadm": marks["kubeadm"] - began,
        "kubelet": marks["kubelet"] - marks["kubeadm"],
        "whole": marks["whole"] - began,
    }


async def main() -> None:
    arguments(__doc__).parse_args()
    missing = why_not(OLD, NEW.partition("-")[0])
    if missing or "ESPALIER_REAL_NODES" not in os.environ:
        report("a real node in place, beside kubeadm by hand", f"not measured: {missing or 'set ESPALIER_REAL_NODES'}")
        return
    with tempfile.TemporaryDirectory() as folder:
        async with real_environment(Path(folder)) as env:
            workload, node = await cluster(env, "hand")
            hand = await by_hand(env, workload, node)
            await env.management("delete", "clusters.anywhere.eks.amazonaws.com/hand", "--wait")
            _, node = await cluster(env, "garden")
            ours = await in_place(env, "garden", node)
            await env.ready("garden")
    report(
        "a real control plane node from 1.35.4 to 1.36.3",
        f"by hand: {hand['whole']:.0f} s (kubeadm {hand['kubeadm']:.0f} s, kubelet {hand['kubelet']:.0f} s)",
        f"in place: {ours['whole']:.0f} s (to kubeadm's end {ours['kubeadm']:.0f} s, drain and kubelet "
        f"{ours['kubelet']:.0f} s)",
    )


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
