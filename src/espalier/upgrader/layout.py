"""Layout of image-builder on the host: the paths of what is upgraded."""

from __future__ import annotations

from collections.abc import Mapping

from .node import Node
from .services import program_of

CONTAINERD, CNI_PLUGINS, KUBERNETES = "containerd", "cni-plugins", "kubernetes"
CNI_FOLDER = "/opt/cni/bin"
FOLDERS = ("/usr/bin", "/usr/local/bin")
"""Directories of Kubernetes' programs: of packages, and of unpacked archives."""


def containerd(node: Node) -> Mapping[str, str]:
    """Path on the host -> file of the image, for what lies beside the containerd that systemd starts."""
    folder = program_of(node, CONTAINERD).rpartition("/")[0]
    return {f"{folder}/{name}": f"{CONTAINERD}/{name}" for name in node.contents.programs(CONTAINERD)}


def cni_plugins(node: Node) -> Mapping[str, str]:
    """Path on the host -> file of the image, for the CNI plugins."""
    return {f"{CNI_FOLDER}/{name}": f"{CNI_PLUGINS}/{name}" for name in node.contents.programs(CNI_PLUGINS)}


def kubelet(node: Node) -> Mapping[str, str]:
    """Path on the host -> file of the image, for the kubelet that systemd starts."""
    return {program_of(node, "kubelet"): f"{KUBERNETES}/kubelet"}


def tool(node: Node, name: str) -> Mapping[str, str]:
    """Path on the host -> file of the image, for kubeadm or kubectl; one that is not there comes beside the kubelet."""
    beside = program_of(node, "kubelet").rpartition("/")[0]
    folders = dict.fromkeys((beside, *FOLDERS))
    folder = next((folder for folder in folders if node.files.is_file(f"{folder}/{name}")), beside)
    return {f"{folder}/{name}": f"{KUBERNETES}/{name}"}


def everything(node: Node) -> Mapping[str, str]:
    """All that is upgraded. Raises `StepFailed` where the host has another layout."""
    return {
        **containerd(node),
        **cni_plugins(node),
        **tool(node, "kubeadm"),
        **kubelet(node),
        **tool(node, "kubectl"),
    }
