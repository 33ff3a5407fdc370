"""The objects that kubeadm installs in a new cluster: kube-proxy, CoreDNS, and the ConfigMap with its configuration."""

from __future__ import annotations

import json

import msgspec

from espalier.api.capi.kubeadm import ClusterConfiguration
from espalier.api.core import CONFIG_MAP, DAEMON_SET, DEPLOYMENT, KUBE_SYSTEM, SERVICE, SERVICE_ACCOUNT
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.api.text.violations import ManifestError
from espalier.api.trees.yaml_trees import trees
from espalier.clusterapi.machines.network import Network
from espalier.simulator.bootstrap_data import CONTROL_PLANE_LABEL, Kubeadm

FIELD_MANAGER = "kubeadm"
"""The field manager of these objects."""


def installed(name: str, endpoint: str, kubeadm: Kubeadm, network: Network) -> list[tuple[Resource, Tree]]:
    """All objects, for a cluster of this name whose API server is at `endpoint` (host:port)."""
    return [
        (SERVICE, _kubernetes_service(network)),
        (CONFIG_MAP, _kubeadm_config(name, endpoint, kubeadm, network)),
        (SERVICE_ACCOUNT, _object(SERVICE_ACCOUNT, "kube-proxy")),
        (DAEMON_SET, kube_proxy(kubeadm)),
        (SERVICE_ACCOUNT, _object(SERVICE_ACCOUNT, "coredns")),
        (CONFIG_MAP, _corefile(network)),
        (SERVICE, _dns_service(network)),
        (DEPLOYMENT, coredns(kubeadm)),
    ]


def upgraded(kubeadm: Kubeadm) -> list[tuple[Resource, Tree]]:
    """The objects that are upgraded once all control plane machines have the version."""
    return [(DAEMON_SET, kube_proxy(kubeadm)), (DEPLOYMENT, coredns(kubeadm))]


def image_of(workload: Tree) -> str:
    """The image of a workload's only container."""
    return str(workload["spec"]["template"]["spec"]["containers"][0]["image"])


def kube_proxy(kubeadm: Kubeadm) -> Tree:
    """The DaemonSet of the service proxy."""
    repository = (kubeadm.cluster and kubeadm.cluster.image_repository) or "registry.k8s.io"
    labels = {"k8s-app": "kube-proxy"}
    return {
        **_object(DAEMON_SET, "kube-proxy", labels),
        "spec": {
            "selector": {"matchLabels": labels},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "hostNetwork": True,
                    "nodeSelector": {"kubernetes.io/os": "linux"},
                    "priorityClassName": "system-node-critical",
                    "serviceAccountName": "kube-proxy",
                    "tolerations": [{"operator": "Exists"}],
                    "containers": [{"name": "kube-proxy", "image": f"{repository}/kube-proxy:{kubeadm.version}"}],
                },
            },
        },
    }


def coredns(kubeadm: Kubeadm) -> Tree:
    """The Deployment of CoreDNS."""
    cluster = kubeadm.cluster
    repository = (cluster and cluster.dns and cluster.dns.image_repository) or "registry.k8s.io/coredns"
    tag = (cluster and cluster.dns and cluster.dns.image_tag) or "latest"
    labels = {"k8s-app": "kube-dns"}
    return {
        **_object(DEPLOYMENT, "coredns", labels),
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "nodeSelector": {"kubernetes.io/os": "linux"},
                    "priorityClassName": "system-cluster-critical",
                    "serviceAccountName": "coredns",
                    "tolerations": [
                        {"key": "CriticalAddonsOnly", "operator": "Exists"},
                        {"key": CONTROL_PLANE_LABEL, "effect": "NoSchedule"},
                    ],
                    "containers": [{"name": "coredns", "image": f"{repository}/coredns:{tag}"}],
                },
            },
        },
    }


def _kubernetes_service(network: Network) -> Tree:
    metadata = {
        "name": "kubernetes",
        "namespace": "default",
        "labels": {"component": "apiserver", "provider": "kubernetes"},
    }
    spec = {
        "type": "ClusterIP",
        "clusterIP": network.service_address(1),
        "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
    }
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def _dns_service(network: Network) -> Tree:
    spec = {
        "clusterIP": network.service_address(10),
        "selector": {"k8s-app": "kube-dns"},
        "ports": [
            {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": 53},
            {"name": "dns-tcp", "port": 53, "protocol": "TCP", "targetPort": 53},
            {"name": "metrics", "port": 9153, "protocol": "TCP", "targetPort": 9153},
        ],
    }
    labels = {"k8s-app": "kube-dns", "kubernetes.io/cluster-service": "true", "kubernetes.io/name": "CoreDNS"}
    return {**_object(SERVICE, "kube-dns", labels), "spec": spec}


def _corefile(network: Network) -> Tree:
    corefile = (
        ".:53 {\n    errors\n    health\n    ready\n"
        f"    kubernetes {network.domain} in-addr.arpa ip6.arpa\n"
        "    prometheus :9153\n    forward . /etc/resolv.conf\n    cache 30\n    loop\n    reload\n}\n"
    )
    return {**_object(CONFIG_MAP, "coredns"), "data": {"Corefile": corefile}}


def _kubeadm_config(name: str, endpoint: str, kubeadm: Kubeadm, network: Network) -> Tree:
    configuration = {
        "apiVersion": "kubeadm.k8s.io/v1beta4",
        "kind": "ClusterConfiguration",
        "clusterName": name,
        "controlPlaneEndpoint": endpoint,
        "kubernetesVersion": kubeadm.version,
        "networking": {
            "dnsDomain": network.domain,
            "podSubnet": network.pods,
            "serviceSubnet": network.services,
        },
        **(msgspec.to_builtins(kubeadm.cluster) if kubeadm.cluster else {}),
    }
    data = {"ClusterConfiguration": json.dumps(configuration, indent=2, sort_keys=True)}
    return {**_object(CONFIG_MAP, "kubeadm-config"), "data": data}


def cluster_configuration(kubeadm_config: Tree) -> ClusterConfiguration:
    """The ClusterConfiguration in ConfigMap `kubeadm-config`, for machines that join.

    Others may write it in the workload cluster: raises `ValueError` when it is invalid.
    """
    text = (kubeadm_config.get("data") or {}).get("ClusterConfiguration") or ""
    try:
        documents = trees(str(text), "ConfigMap kubeadm-config")
        return msgspec.convert(documents[0] if documents else None, ClusterConfiguration)
    except (ManifestError, msgspec.ValidationError) as error:
        raise ValueError(f"ConfigMap kubeadm-config of the cluster can't be decoded: {error}") from None


def _object(resource: Resource, name: str, labels: dict[str, str] | None = None) -> Tree:
    metadata: Tree = {"name": name, "namespace": KUBE_SYSTEM}
    if labels:
        metadata["labels"] = labels
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
