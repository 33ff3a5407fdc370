"""Images of a shoot's control plane, and the programs in them, by which seeds without images run them."""

from __future__ import annotations

ETCD = "espalier.gardener.cloud/etcd"
AGENT = "espalier.gardener.cloud/etcd-backup-restore"
KUBE_APISERVER = "registry.k8s.io/kube-apiserver"
KUBE_CONTROLLER_MANAGER = "registry.k8s.io/kube-controller-manager"
KUBE_SCHEDULER = "registry.k8s.io/kube-scheduler"
MACHINE_CONTROLLER_MANAGER = "espalier.gardener.cloud/machine-controller-manager"


def tagged(image: str, version: str) -> str:
    """The image with the tag of a version; tags begin with `v`."""
    tag = version if version.startswith("v") else f"v{version}"
    return f"{image}:{tag}"


def program(image: str) -> str:
    """The name of an image's program, whatever registry mirrors it: `kube-apiserver`, `etcd-backup-restore`."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0]
