"""The EndpointSlice controller: the pods behind each Service, and their ports."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from espalier.api.core import ENDPOINT_SLICE, POD, SERVICE
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.simulator.workload_controllers.snapshot import Snapshot
from espalier.simulator.workload_controllers.views import Pod, Service, ServicePort
from espalier.simulator.workload_controllers.writes import Change, Create, Delete, Write

SERVICE_NAME = "kubernetes.io/service-name"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
CONTROLLER = "endpointslice-controller.k8s.io"


@dataclass(frozen=True)
class Backend:
    """A pod behind a Service."""

    pod: Pod
    ready: bool
    """True if the Service sends traffic to it."""
    ports: tuple[tuple[ServicePort, int], ...]
    """Pairs of a port of the Service, and the port of the pod that is its target."""

    def target(self, port: int) -> int | None:
        """The port of the pod for a port of the Service; None if it has none."""
        return next((target for service_port, target in self.ports if service_port.port == port), None)


def backends(service: Service, pods: Iterable[Pod]) -> Iterator[Backend]:
    """The pods behind a Service by name, including unready ones. `pods` are those of its namespace."""
    selector = service.spec.selector
    if not selector or service.spec.type == "ExternalName":
        return
    for pod in sorted(pods, key=lambda pod: pod.metadata.name):
        labels = pod.metadata.labels
        if pod.status.phase in ("Succeeded", "Failed") or any(labels.get(name) != selector[name] for name in selector):
            continue
        ports = tuple((port, target) for port in service.spec.ports if (target := _target(port, pod)) is not None)
        serving = service.spec.publish_not_ready_addresses or (pod.ready and not pod.deleting)
        yield Backend(pod, serving, ports)


def _target(port: ServicePort, pod: Pod) -> int | None:
    if port.target_port is None or isinstance(port.target_port, int):
        return port.target_port or port.port
    ports = (container_port for container in pod.spec.containers for container_port in container.ports)
    return next((candidate.container_port for candidate in ports if candidate.name == port.target_port), None)


def plan(snapshot: Snapshot) -> Iterator[Write]:
    """The missing writes for EndpointSlices: one for each Service and set of target ports."""
    present = {
        slice_.key: slice_
        for slice_ in snapshot.endpoint_slices
        if slice_.metadata.labels.get(MANAGED_BY) == CONTROLLER
    }
    wanted: dict[Key, Tree] = {}
    for service in snapshot.services:
        if service.spec.selector and not service.deleting:
            for slice_ in _slices(service, snapshot.pods_by_namespace.get(service.metadata.namespace, ())):
                wanted[Key(service.metadata.namespace, slice_["metadata"]["name"])] = slice_
    for key, slice_ in wanted.items():
        current = present.get(key)
        if current is None:
            yield Create(ENDPOINT_SLICE, slice_)
        elif ((current.endpoints or []), (current.ports or [])) != (slice_["endpoints"], slice_["ports"]):
            yield Change(ENDPOINT_SLICE, key, {"endpoints": slice_["endpoints"], "ports": slice_["ports"]})
    for key, current in present.items():
        if key not in wanted:
            yield Delete(ENDPOINT_SLICE, key, current.metadata.uid)


def _slices(service: Service, pods: Iterable[Pod]) -> Iterator[Tree]:
    addressed = [backend for backend in backends(service, pods) if backend.pod.status.pod_ip]
    addressed.sort(key=lambda backend: [target for _, target in backend.ports])
    groups = [[*group] for _, group in groupby(addressed, key=lambda backend: backend.ports)]
    for group in groups or [[]]:
        ports = [
            {"name": port.name, "port": target, "protocol": port.protocol}
            for port, target in (group[0].ports if group else ())
        ]
        ports_hash = hashlib.sha256(repr([port["port"] for port in ports]).encode()).hexdigest()[:10]
        yield {
            "apiVersion": ENDPOINT_SLICE.api_version,
            "kind": ENDPOINT_SLICE.kind,
            "metadata": {
                "name": f"{service.metadata.name}-{ports_hash}",
                "namespace": service.metadata.namespace,
                "labels": {**service.metadata.labels, SERVICE_NAME: service.metadata.name, MANAGED_BY: CONTROLLER},
                "ownerReferences": [
                    {
                        "apiVersion": SERVICE.api_version,
                        "kind": SERVICE.kind,
                        "name": service.metadata.name,
                        "uid": service.metadata.uid,
                        "controller": True,
                        "blockOwnerDeletion": True,
                    }
                ],
            },
            "addressType": "IPv4",
            "endpoints": [_endpoint(service, backend) for backend in group],
            "ports": ports,
        }


def _endpoint(service: Service, backend: Backend) -> Tree:
    pod = backend.pod
    conditions = {"ready": backend.ready, "serving": pod.ready, "terminating": pod.deleting}
    if service.spec.publish_not_ready_addresses:
        conditions |= {"serving": True}
    hostname = pod.spec.hostname if pod.spec.subdomain == service.metadata.name else ""
    return {
        "addresses": [pod.status.pod_ip],
        "conditions": conditions,
        **({"hostname": hostname} if hostname else {}),
        "nodeName": pod.spec.node_name,
        "targetRef": {
            "kind": POD.kind,
            "namespace": pod.metadata.namespace,
            "name": pod.metadata.name,
            "uid": pod.metadata.uid,
        },
    }
