"""The programs of a control plane, with the flags for a real seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from espalier.api.core import SERVICE
from espalier.api.gardener import images
from espalier.api.gardener.etcd import MAIN
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.shoots.control_plane import accounts
from espalier.shoots.control_plane.deployment import API_SERVER_PROBES, Program, deployment, labels_of, mounted
from espalier.shoots.etcd import names as etcd_names
from espalier.shoots.secrets import peers

API_SERVER = "kube-apiserver"
CONTROLLER_MANAGER = "kube-controller-manager"
SCHEDULER = "kube-scheduler"
MACHINE_CONTROLLER_MANAGER = accounts.MACHINE_CONTROLLER_MANAGER

_ETCD = etcd_names.client_service(MAIN)
_CLIENT_FILES = {"etcd-cafile": peers.TRUSTED, "etcd-certfile": peers.CERTIFICATE, "etcd-keyfile": peers.KEY}
API_SERVER_PORT = 443
"""The port of the Service and of the container: nodes and kubeconfigs use it."""
WATCH_GRACE = "200ms"
"""Time within which a terminating kube-apiserver closes its watches. It takes all of it, and nobody writes meanwhile.
Without it the watches of kubelets, which last for minutes, delay its end until it is killed.
"""
_NOT_AWAITED = "?exclude=poststarthook/scheduling/bootstrap-system-priority-classes"
"""A start that health checks do not wait for: kube-apiserver looks after the system's PriorityClasses no sooner than a
second after it serves, while a restored shoot has them.
"""
DEFAULT_SERVICES, DEFAULT_PODS = "10.96.0.0/12", "192.168.0.0/16"


@dataclass(frozen=True)
class ControlPlaneInputs:
    """Inputs of a control plane, besides its shoot."""

    namespace: str
    client_secret: str = ""
    """The Secret with which the API server reaches etcd; empty for an etcd without TLS."""
    issuer: str = "https://kubernetes.default.svc.cluster.local"
    """The issuer of tokens: the same in every seed, because pods have tokens that outlive a move."""
    machine_image_version: str = "v1"


def program(name: str, shoot: Shoot, inputs: ControlPlaneInputs) -> Program:
    """The program of this name. Raises `KeyError` for another name."""
    return _PROGRAMS[name](shoot, inputs)


def _api_server(shoot: Shoot, inputs: ControlPlaneInputs) -> Program:
    secrets = ["ca", "ca-front-proxy", "ca-kubelet", "kube-apiserver", "kube-apiserver-kubelet", "kube-aggregator"]
    secrets += ["service-account-key", "static-token", "etcd-encryption-secret"]
    etcd = {"etcd-servers": f"http://{_ETCD}:{etcd_names.CLIENT_PORT}"}
    if inputs.client_secret:
        secrets.append(inputs.client_secret)
        etcd = {"etcd-servers": f"https://{_ETCD}.{inputs.namespace}.svc:{etcd_names.CLIENT_PORT}"}
        etcd |= {flag: mounted(inputs.client_secret, file) for flag, file in _CLIENT_FILES.items()}
    key = mounted("service-account-key", "id_rsa")
    flags = {
        **etcd,
        "secure-port": str(API_SERVER_PORT),
        "authorization-mode": "Node,RBAC",
        "allow-privileged": "true",
        "profiling": "false",
        "endpoint-reconciler-type": "none",
        "client-ca-file": mounted("ca", "ca.crt"),
        "enable-bootstrap-token-auth": "true",
        "tls-cert-file": mounted("kube-apiserver", "kube-apiserver.crt"),
        "tls-private-key-file": mounted("kube-apiserver", "kube-apiserver.key"),
        "token-auth-file": mounted("static-token", "static_tokens.csv"),
        "encryption-provider-config": mounted("etcd-encryption-secret", "encryption-configuration.yaml"),
        "kubelet-preferred-address-types": "InternalIP,Hostname,ExternalIP",
        "kubelet-certificate-authority": mounted("ca-kubelet", "ca.crt"),
        "kubelet-client-certificate": mounted("kube-apiserver-kubelet", "kube-apiserver-kubelet.crt"),
        "kubelet-client-key": mounted("kube-apiserver-kubelet", "kube-apiserver-kubelet.key"),
        "requestheader-client-ca-file": mounted("ca-front-proxy", "ca.crt"),
        "requestheader-extra-headers-prefix": "X-Remote-Extra-",
        "requestheader-group-headers": "X-Remote-Group",
        "requestheader-username-headers": "X-Remote-User",
        "proxy-client-cert-file": mounted("kube-aggregator", "kube-aggregator.crt"),
        "proxy-client-key-file": mounted("kube-aggregator", "kube-aggregator.key"),
        "service-account-issuer": inputs.issuer,
        "service-account-key-file": key,
        "service-account-signing-key-file": key,
        "service-cluster-ip-range": _services(shoot),
        "shutdown-watch-termination-grace-period": WATCH_GRACE,
    }
    image = images.tagged(images.KUBE_APISERVER, shoot.spec.kubernetes.version)
    return Program(
        API_SERVER,
        image,
        flags,
        secrets,
        API_SERVER_PORT,
        health=f"/livez{_NOT_AWAITED}",
        readiness=f"/readyz{_NOT_AWAITED}",
        probes=API_SERVER_PROBES,
    )


def _controller_manager(shoot: Shoot, inputs: ControlPlaneInputs) -> Program:
    kubeconfig = mounted(CONTROLLER_MANAGER, "kubeconfig")
    flags = {
        **_kubeconfig(kubeconfig),
        "cluster-name": inputs.namespace,
        "cluster-cidr": _pods(shoot),
        "service-cluster-ip-range": _services(shoot),
        "allocate-node-cidrs": "true",
        "use-service-account-credentials": "true",
        "root-ca-file": mounted("ca", "ca.crt"),
        "service-account-private-key-file": mounted("service-account-key", "id_rsa"),
        "controllers": "*,tokencleaner",
        **_signing("kube-apiserver-client", "ca"),
        **_signing("kubelet-client", "ca"),
        **_signing("kubelet-serving", "ca-kubelet"),
        **_signing("legacy-unknown", "ca"),
        "leader-elect": "true",
        "profiling": "false",
    }
    secrets = ["ca", "ca-kubelet", "service-account-key", CONTROLLER_MANAGER]
    image = images.tagged(images.KUBE_CONTROLLER_MANAGER, shoot.spec.kubernetes.version)
    return Program(CONTROLLER_MANAGER, image, flags, secrets, 10257)


def _scheduler(shoot: Shoot, _inputs: ControlPlaneInputs) -> Program:
    flags = {**_kubeconfig(mounted(SCHEDULER, "kubeconfig")), "leader-elect": "true", "profiling": "false"}
    image = images.tagged(images.KUBE_SCHEDULER, shoot.spec.kubernetes.version)
    return Program(SCHEDULER, image, flags, [SCHEDULER], 10259)


def _machine_controller_manager(_shoot: Shoot, inputs: ControlPlaneInputs) -> Program:
    """It has machines in the seed and nodes in the shoot. Two instances at a time would create machines twice."""
    flags = {
        "control-kubeconfig": "inClusterConfig",
        "target-kubeconfig": mounted(MACHINE_CONTROLLER_MANAGER, "kubeconfig"),
        "namespace": inputs.namespace,
        "port": "10258",
    }
    image = images.tagged(images.MACHINE_CONTROLLER_MANAGER, inputs.machine_image_version)
    return Program(
        MACHINE_CONTROLLER_MANAGER,
        image,
        flags,
        [MACHINE_CONTROLLER_MANAGER],
        10258,
        scheme="HTTP",
        service_account=MACHINE_CONTROLLER_MANAGER,
        is_singleton=True,
    )


_PROGRAMS: Mapping[str, Callable[[Shoot, ControlPlaneInputs], Program]] = {
    API_SERVER: _api_server,
    CONTROLLER_MANAGER: _controller_manager,
    SCHEDULER: _scheduler,
    MACHINE_CONTROLLER_MANAGER: _machine_controller_manager,
}


def _kubeconfig(path: str) -> dict[str, str]:
    return {"kubeconfig": path, "authentication-kubeconfig": path, "authorization-kubeconfig": path}


def _signing(signer: str, authority: str) -> dict[str, str]:
    """The authority that signs approved certificate requests of a signer."""
    return {f"cluster-signing-{signer}-{part}-file": mounted(authority, f"ca.{end}") for part, end in _PARTS.items()}


_PARTS = {"cert": "crt", "key": "key"}


def _services(shoot: Shoot) -> str:
    networking = shoot.spec.networking
    return networking.services if networking is not None and networking.services else DEFAULT_SERVICES


def _pods(shoot: Shoot) -> str:
    networking = shoot.spec.networking
    return networking.pods if networking is not None and networking.pods else DEFAULT_PODS


@dataclass(frozen=True)
class ControlPlane:
    """Renders the control planes of a seed's shoots (`Renderer` of the gardenlet)."""

    issuer: str = ControlPlaneInputs.issuer

    def services(self, shoot: Shoot, namespace: str) -> list[Tree]:
        """The Services by which its parts reach each other."""
        port = {"name": "https", "port": API_SERVER_PORT, "targetPort": API_SERVER_PORT, "protocol": "TCP"}
        labels = labels_of(API_SERVER)
        return [
            {
                "apiVersion": SERVICE.api_version,
                "kind": SERVICE.kind,
                "metadata": {"name": API_SERVER, "namespace": namespace, "labels": labels},
                "spec": {"selector": labels, "ports": [port]},
            }
        ]

    def roles_in_shoot(self) -> list[tuple[Resource, Tree]]:
        """The rights of machine-controller-manager, and of machines that join, in the shoot."""
        return accounts.in_shoot()

    def service_account(self, namespace: str, in_shoot: str) -> Tree:
        """The ServiceAccount of machine-controller-manager."""
        return accounts.service_account(namespace, in_shoot)

    def role_binding(self, namespace: str) -> Tree:
        """The RoleBinding of that ServiceAccount."""
        return accounts.role_binding(namespace)

    def deployment(self, name: str, shoot: Shoot, namespace: str, replicas: int, client_secret: str = "") -> Tree:
        """The Deployment of kube-apiserver, kube-controller-manager, kube-scheduler or machine-controller-manager.
        `client_secret`: the Secret with which kube-apiserver reaches etcd; empty without TLS.

        Raises `KeyError` for another name.
        """
        inputs = ControlPlaneInputs(namespace, client_secret, self.issuer)
        return deployment(program(name, shoot, inputs), namespace, replicas)
