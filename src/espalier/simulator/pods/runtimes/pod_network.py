"""The listeners of one cluster's containers in this process: without sockets, found by pod or by Service name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from espalier.api.core import POD, SERVICE
from espalier.api.resource import Key
from espalier.simulator.pods.runtimes.life import Life
from espalier.simulator.workload_clusters.workload_cluster import WorkloadCluster
from espalier.simulator.workload_controllers.planners import endpoints
from espalier.simulator.workload_controllers.views import Pod, Service

T = TypeVar("T")

LOCALHOSTS = ("localhost", "127.0.0.1")


class ConnectionRefused(ConnectionRefusedError):
    """Nothing listens at an address. The message has the reason, as far as the API shows it."""


@dataclass(frozen=True)
class Listener:
    """A listener of a container."""

    endpoint: object
    """The object that clients get, as agreed by both sides."""
    life: Life
    """The container's life, with which it ends."""
    answers: Callable[[str], Awaitable[int]] | None = None
    """The status of a GET of a path, for probes over HTTP."""


@dataclass
class PodNetwork:
    """The listeners of one cluster, by the uid of their pod and their port."""

    workload: WorkloadCluster
    _listeners: dict[tuple[str, int], Listener] = field(default_factory=dict)

    def listen(self, pod: str, port: int, listener: Listener) -> None:
        """Add a listener until its container ends. Raises `ValueError` if the pod already listens on the port."""
        if (pod, port) in self._listeners:
            raise ValueError(f"listen on port {port}: address already in use by another container of the pod")
        self._listeners[pod, port] = listener
        listener.life.at_end(lambda: self._listeners.pop((pod, port), None))

    def of_pod(self, pod: str, port: int) -> Listener:
        """The listener of a pod. Raises `ConnectionRefused`."""
        try:
            return self._listeners[pod, port]
        except KeyError:
            raise ConnectionRefused(f"connection refused: the pod listens on no port {port}") from None

    def of_service(self, service: Key, port: int) -> Listener:
        """The listener of the first ready pod of a Service, by name, that listens. Raises `ConnectionRefused`."""
        object_ = self.workload.object(SERVICE, service)
        if object_ is None:
            raise ConnectionRefused(f"lookup {service.name}.{service.namespace}: no such host")
        pods = (pod.decode(Pod) for pod in self.workload.cache(POD).list(service.namespace))
        reasons = []
        for backend in endpoints.backends(object_.decode(Service), pods):
            target = backend.target(port)
            if target is None or not backend.ready:
                reasons.append(f"{backend.pod.metadata.name} is not ready")
                continue
            try:
                return self.of_pod(backend.pod.metadata.uid, target)
            except ConnectionRefused as refused:
                reasons.append(str(refused))
        reason = "; ".join(reasons) or "no pods are behind it"
        raise ConnectionRefused(f"connection refused: Service {service.namespace}/{service.name}:{port}: {reason}")

    def resolve(self, namespace: str, host: str, port: int) -> Listener:
        """The listener at `service`, `service.namespace` or `service.namespace.svc…`; before it `pod.`, if the Service
        gives its pods names. Raises `ConnectionRefused`."""
        name, _, rest = host.partition(".")
        service, _, in_namespace = rest.partition(".")
        of_pod = self.workload.object(SERVICE, Key(in_namespace.split(".")[0] or namespace, service))
        if of_pod is not None and of_pod.decode(Service).spec.cluster_ip == "None":
            pod = self.workload.object(POD, Key(of_pod.namespace, name))
            if pod is None:
                raise ConnectionRefused(f"lookup {host}: no such host")
            return self.of_pod(pod.metadata.uid, port)
        return self.of_service(Key(service or namespace, name), port)


def endpoint_of(listener: Listener, type_: type[T]) -> T:
    """The endpoint of a listener. Raises `ConnectionRefused` if it has another type."""
    if not isinstance(listener.endpoint, type_):
        raise ConnectionRefused(f"found {type(listener.endpoint).__name__}, expected {type_.__name__}: wrong port")
    return listener.endpoint
