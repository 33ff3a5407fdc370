"""kube-vip: assigns the address of the API server to a control plane machine, for providers without a load balancer."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from msgspec.structs import replace

from espalier.api.capi.kubeadm import File, KubeadmConfigSpec
from espalier.api.core import KUBE_SYSTEM
from espalier.api.meta import Tree
from espalier.api.trees import yaml_text
from espalier.clusterapi.kubernetes_versions import minor

PATH = "/etc/kubernetes/manifests/kube-vip.yaml"
_KUBECONFIG = "/etc/kubernetes/admin.conf"
_FIRST_KUBECONFIG = "/etc/kubernetes/super-admin.conf"

_FIRST_KUBECONFIG_SINCE = minor("1.29")
"""The first Kubernetes version in which `admin.conf` has no rights until the API server is reached by the address
that kube-vip assigns (https://github.com/kube-vip/kube-vip/issues/684)."""

OF_SERVICES = {"svc_enable": "true", "svc_election": "true"}
"""Variables with which it also assigns the addresses of Services."""


class Variant(NamedTuple):
    """Differences between providers."""

    variables: Mapping[str, str] = {}
    """Additional variables."""
    kubeconfig: str = _KUBECONFIG
    """The path of the administrator's kubeconfig on the machine."""
    kubeconfig_type: str = ""
    """The type of the hostPath volume, such as `FileOrCreate`; empty: nothing is checked."""


USUAL = Variant()


def first_machine(version: str) -> list[str]:
    """Commands before kubeadm: kube-vip uses the first kubeconfig on the machine that initializes a control plane."""
    if minor(version) < _FIRST_KUBECONFIG_SINCE:
        return []
    own, other = (f"path: {path}" for path in (_KUBECONFIG, _FIRST_KUBECONFIG))
    return [f"if [ -f /run/kubeadm/kubeadm.yaml ]; then sed -i 's#{own}#{other}#' {PATH}; fi"]


def file(image: str, address: str, variant: Variant = USUAL) -> File:
    """The static pod on control plane machines."""
    content = _manifest(image, address, tuple(variant.variables.items()), variant.kubeconfig, variant.kubeconfig_type)
    return File(path=PATH, owner="root:root", permissions="0600", content=content)


_IS_THERE = "DirAvailable--etc-kubernetes-manifests"
"""kubeadm's check that the folder of static pods is empty."""


def joins(config: KubeadmConfigSpec) -> KubeadmConfigSpec:
    """The configuration of machines that join a control plane while the pod already exists."""
    join = config.join_configuration
    node = join.node_registration if join is not None else None
    if join is None or node is None:
        return config
    registration = replace(node, ignore_preflight_errors=[_IS_THERE])
    return replace(config, join_configuration=replace(join, node_registration=registration))


@lru_cache(maxsize=1024)
def _manifest(
    image: str,
    address: str,
    variables: tuple[tuple[str, str], ...],
    kubeconfig: str,
    kubeconfig_type: str,
) -> str:
    """The manifest. Cached, because each reconcile renders it, and writing YAML is slow."""
    settings = {
        "vip_arp": "true",
        "port": "6443",
        "vip_cidr": "128" if ":" in address else "32",
        "cp_enable": "true",
        "cp_namespace": KUBE_SYSTEM,
        "vip_ddns": "false",
        "vip_leaderelection": "true",
        "vip_leaseduration": "15",
        "vip_renewdeadline": "10",
        "vip_retryperiod": "2",
        "address": address,
        **dict(variables),
    }
    container = {
        "name": "kube-vip",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": ["manager"],
        "env": [{"name": name, "value": value} for name, value in settings.items()],
        "securityContext": {"capabilities": {"add": ["NET_ADMIN", "NET_RAW"]}},
        "volumeMounts": [{"name": "kubeconfig", "mountPath": _KUBECONFIG}],
    }
    host_path = {"path": kubeconfig} | ({"type": kubeconfig_type} if kubeconfig_type else {})
    pod: Tree = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "kube-vip", "namespace": KUBE_SYSTEM},
        "spec": {
            "hostNetwork": True,
            "containers": [container],
            "volumes": [{"name": "kubeconfig", "hostPath": host_path}],
        },
    }
    return yaml_text.dump(pod)
