"""The kubelets: report pods as running, delete terminating pods, create mirror pods, report nodes as ready.

Also the parts of kube-controller-manager that allocate pod CIDRs, remove the not-ready taint, and delete the pods of
deleted nodes.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

import msgspec

from espalier.api.core import NODE, POD
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.simulator.nodes import ready_conditions
from espalier.simulator.workload_controllers.planners.scheduler import NOT_READY
from espalier.simulator.workload_controllers.snapshot import Snapshot
from espalier.simulator.workload_controllers.views import Node, Pod
from espalier.simulator.workload_controllers.writes import Change, Create, Delete, Write

CNI_NAMES = frozenset({"kindnet", "kindnetd", "cilium"})
"""Values of the labels below by which CNI agents are recognized."""

CNI_LABELS = ("k8s-app", "app.kubernetes.io/name", "app")


def plan(snapshot: Snapshot) -> Iterator[Write]:
    """The missing writes for Nodes, and for pods that are bound to a node."""
    yield from _nodes(snapshot)
    for mirror in snapshot.deleted_mirrors:
        if mirror["spec"]["nodeName"] in snapshot.node_by_name:
            yield Create(POD, mirror)
    for name, pods in snapshot.pods_by_node.items():
        node = snapshot.node_by_name.get(name)
        addresses = _free_addresses(node, pods)
        for pod in pods:
            key = pod.key
            if node is not None and snapshot.runs(pod):
                continue
            if node is None or pod.deleting:
                yield Delete(POD, key, pod.metadata.uid)
            elif pod.spec.restart_policy == "Never":
                continue  # the pod runs to completion: `simulator/pods` reports its status
            elif pod.status.phase != "Running" and (pod.spec.host_network or node.ready):
                address = node.internal_ip if pod.spec.host_network else next(addresses, "")
                yield Change(POD, key, {"status": running_status(snapshot, pod, node, address)}, "status")


def _nodes(snapshot: Snapshot) -> Iterator[Write]:
    pod_cidrs = _free_pod_cidrs(snapshot)
    for node in snapshot.nodes:
        key = Key("", node.metadata.name)
        spec: Tree = {}
        if not node.spec.pod_cidr and (free := next(pod_cidrs, "")):
            spec |= {"podCIDR": free, "podCIDRs": [free]}
        has_network = node.ready or any(map(_is_cni_agent, snapshot.pods_by_node.get(node.metadata.name, ())))
        if has_network and any(taint.key == NOT_READY for taint in node.spec.taints):
            taints = [msgspec.to_builtins(taint) for taint in node.spec.taints if taint.key != NOT_READY]
            spec["taints"] = taints or None
        if spec:
            yield Change(NODE, key, {"spec": spec})
        if has_network and node.readiness == "False":  # Unknown means that the kubelet does not report.
            yield Change(NODE, key, {"status": {"conditions": ready_conditions(snapshot.timestamp)}}, "status")


def _is_cni_agent(pod: Pod) -> bool:
    labels = pod.metadata.labels
    return pod.ready and any(labels.get(label) in CNI_NAMES for label in CNI_LABELS)


def running_status(snapshot: Snapshot, pod: Pod, node: Node, address: str) -> Tree:
    """The status of a pod whose containers run."""
    now = snapshot.timestamp
    status: Tree = {
        "phase": "Running",
        "startTime": now,
        "hostIP": node.internal_ip,
        "hostIPs": [{"ip": node.internal_ip}],
        "qosClass": "BestEffort",
        "conditions": [
            {"type": type_, "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
            for type_ in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
        ],
        "containerStatuses": [
            {
                "name": container.name,
                "image": container.image,
                "imageID": container.image,
                "containerID": f"containerd://{pod.metadata.uid}-{container.name}",
                "ready": True,
                "started": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": now}},
                "lastState": {},
            }
            for container in pod.spec.containers
        ],
    }
    if address:
        status |= {"podIP": address, "podIPs": [{"ip": address}]}
    return status


def _free_pod_cidrs(snapshot: Snapshot) -> Iterator[str]:
    """Free pod CIDRs for nodes, each a /24, as kube-controller-manager allocates; none for IPv6."""
    cluster_cidr = ipaddress.ip_network(snapshot.pod_range)
    if cluster_cidr.version != 4:
        return
    used = {node.spec.pod_cidr for node in snapshot.nodes}
    for candidate in cluster_cidr.subnets(new_prefix=max(24, cluster_cidr.prefixlen)):
        if str(candidate) not in used:
            yield str(candidate)


def _free_addresses(node: Node | None, pods: list[Pod]) -> Iterator[str]:
    if node is None or not node.spec.pod_cidr:
        return
    used = {pod.status.pod_ip for pod in pods}
    hosts = ipaddress.ip_network(node.spec.pod_cidr).hosts()
    next(hosts, None)  # The first address is the node's bridge.
    for candidate in hosts:
        if str(candidate) not in used:
            yield str(candidate)
