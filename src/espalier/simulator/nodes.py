"""The objects of a simulated machine in its cluster: a Node, and static pods on control planes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from espalier.api.capi.kubeadm import ClusterConfiguration
from espalier.api.core import KUBE_SYSTEM, NODE, POD, Taint
from espalier.api.meta import Tree
from espalier.clusterapi.machines.network import machine_addresses
from espalier.kube.objects import Object
from espalier.simulator.bootstrap_data import CONTROL_PLANE_LABEL, Kubeadm
from espalier.simulator.hosts import static_pods as hosts
from espalier.simulator.hosts.static_pods import MIRROR, StaticPod

NOT_READY_TAINT = Taint(key="node.kubernetes.io/not-ready", effect="NoSchedule")
"""The taint of every new node, until its network is ready."""

CAPACITY = {"cpu": "4", "memory": "8Gi", "ephemeral-storage": "64Gi", "pods": "110"}

_PRESSURES = (
    ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
)


def node(
    kubeadm: Kubeadm, *, provider_id: str, address: str, container_runtime: str, now: str, kubelet: str = ""
) -> Tree:
    """The Node that a kubelet registers, and reports as not ready because it has no network yet.

    `kubelet` is the version that it reports; by default that of its machine.
    """
    labels = {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": kubeadm.node_name,
        "kubernetes.io/os": "linux",
        **kubeadm.labels,
    }
    if kubeadm.control_plane:
        labels |= {CONTROL_PLANE_LABEL: "", "node.kubernetes.io/exclude-from-external-load-balancers": ""}
    return {
        "apiVersion": NODE.api_version,
        "kind": NODE.kind,
        "metadata": {
            "name": kubeadm.node_name,
            "labels": labels,
            "annotations": {"kubeadm.alpha.kubernetes.io/cri-socket": "unix:///run/containerd/containerd.sock"},
        },
        "spec": {
            "providerID": provider_id,
            "taints": msgspec.to_builtins([*kubeadm.taints, NOT_READY_TAINT]),
        },
        "status": {
            "capacity": CAPACITY,
            "allocatable": CAPACITY,
            "addresses": machine_addresses(kubeadm.node_name, address),
            "conditions": unready_conditions(now),
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": node_info(kubelet or kubeadm.version, container_runtime),
        },
    }


def node_info(version: str, container_runtime: str) -> Tree:
    """The nodeInfo that a kubelet reports; `container_runtime` is the version of containerd."""
    return {
        "architecture": "amd64",
        "bootID": "",
        "containerRuntimeVersion": f"containerd://{container_runtime}",
        "kernelVersion": "simulated",
        "kubeProxyVersion": "",
        "kubeletVersion": version,
        "machineID": "",
        "operatingSystem": "linux",
        "osImage": "Simulated machine",
        "systemUUID": "",
    }


def ready_conditions(now: str) -> list[Tree]:
    """The conditions of a ready node."""
    return _conditions("True", "KubeletReady", "kubelet is posting ready status", now)


def unready_conditions(now: str) -> list[Tree]:
    """The conditions of a node without a CNI plugin, with the kubelet's message."""
    message = (
        "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady "
        "message:Network plugin returns error: cni plugin not initialized"
    )
    return _conditions("False", "KubeletNotReady", message, now)


def _conditions(ready: str, reason: str, message: str, now: str) -> list[Tree]:
    conditions = [(type_, "False", why, text) for type_, why, text in _PRESSURES]
    conditions.append(("Ready", ready, reason, message))
    return [
        {
            "type": type_,
            "status": status,
            "reason": why,
            "message": text,
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        for type_, status, why, text in conditions
    ]


def static_pods(kubeadm: Kubeadm, *, node_uid: str) -> list[Tree]:
    """The mirror pods of a control plane node, with the images and flags of its kubeadm configuration."""
    return [_mirror_pod(pod, kubeadm.node_name, node_uid) for pod in _rendered(kubeadm).values()]


def missing_mirrors(configuration: ClusterConfiguration, node: Object, pods: Iterable[Object]) -> list[Tree]:
    """The mirror pods that a control plane node lacks, of the version of those it has, `pods`; empty without any."""
    present = {pod.name: pod for pod in pods}
    version = ""
    for pod in present.values():
        image = str((pod.tree["spec"].get("containers") or [{}])[0].get("image") or "")
        version = max(version, image.rpartition(":")[2] if "/kube-" in image else "")
    rendered = hosts.rendered(msgspec.to_builtins(configuration), version) if version else {}
    mirrors = [_mirror_pod(pod, node.name, node.metadata.uid) for pod in rendered.values()]
    return [mirror for mirror in mirrors if mirror["metadata"]["name"] not in present]


def _rendered(kubeadm: Kubeadm) -> Mapping[str, StaticPod]:
    configuration = msgspec.to_builtins(kubeadm.cluster) if kubeadm.cluster else {}
    return hosts.rendered(configuration, kubeadm.version)


def _mirror_pod(pod: StaticPod, node_name: str, node_uid: str) -> Tree:
    volumes = [{"name": f"host-{number}", "hostPath": {"path": path}} for number, path in enumerate(pod.host_paths)]
    return {
        "apiVersion": POD.api_version,
        "kind": POD.kind,
        "metadata": {
            "name": f"{pod.name}-{node_name}",
            "namespace": KUBE_SYSTEM,
            "labels": {"component": pod.name, "tier": "control-plane"},
            "annotations": {"kubernetes.io/config.source": "file", MIRROR: node_uid},
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": node_name, "uid": node_uid, "controller": True}
            ],
        },
        "spec": {
            "nodeName": node_name,
            "hostNetwork": True,
            "priorityClassName": "system-node-critical",
            "containers": [{"name": pod.name, "image": pod.image, "command": [pod.name, *pod.flags]}],
            "volumes": volumes,
            "tolerations": [{"operator": "Exists", "effect": "NoExecute"}],
        },
    }


def recreated_mirror(pod: Object) -> Tree:
    """The mirror pod that a kubelet creates in place of a deleted one: without status and server-set metadata."""
    copied_fields = ("name", "namespace", "labels", "annotations", "ownerReferences")
    metadata = {part: value for part, value in pod.tree["metadata"].items() if part in copied_fields}
    return {"apiVersion": POD.api_version, "kind": POD.kind, "metadata": metadata, "spec": pod.tree["spec"]}
