"""The static pods of a simulated control plane node, as kubeadm renders them from its ClusterConfiguration.

Standard library only: the stand-ins of a node's programs use it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

MIRROR = "kubernetes.io/config.mirror"
"""The annotation of a mirror pod: the kubelet recreates it when somebody deletes it."""

COMPONENTS = {
    "kube-apiserver": "apiServer",
    "kube-controller-manager": "controllerManager",
    "kube-scheduler": "scheduler",
}
"""Parts of kubeadm's ClusterConfiguration by component."""


class StaticPod(NamedTuple):
    """The static pod of one component."""

    name: str
    image: str
    flags: Sequence[str] = ()
    host_paths: Sequence[str] = ()

    @property
    def manifest(self) -> str:
        """The pod's manifest, as kubeadm writes it."""
        command = "".join(f"    - {flag}\n" for flag in (self.name, *self.flags))
        volumes = "".join(f"  - hostPath:\n      path: {path}\n" for path in self.host_paths)
        return (
            f"apiVersion: v1\nkind: Pod\nmetadata:\n  name: {self.name}\n  namespace: kube-system\nspec:\n"
            f"  containers:\n  - command:\n{command}    image: {self.image}\n    name: {self.name}\n"
            + (f"  volumes:\n{volumes}" if volumes else "")
        )


def rendered(configuration: Mapping[str, Any], version: str) -> dict[str, StaticPod]:
    """Static pods by component, as kubeadm of that version renders it; without etcd where that is elsewhere."""
    repository = configuration.get("imageRepository") or "registry.k8s.io"
    etcd = configuration.get("etcd") or {}
    local = etcd.get("local") or {}
    pods = {}
    if not etcd.get("external"):
        image = f"{local.get('imageRepository') or repository}/etcd:{local.get('imageTag') or 'latest'}"
        data = str(local.get("dataDir") or "/var/lib/etcd")
        flags = (f"--data-dir={data}", *_flags(local))
        pods["etcd"] = StaticPod("etcd", image, flags, ("/etc/kubernetes/pki/etcd", data))
    for name, part in COMPONENTS.items():
        component = configuration.get(part) or {}
        paths = ("/etc/kubernetes/pki", *(str(volume["hostPath"]) for volume in component.get("extraVolumes") or ()))
        pods[name] = StaticPod(name, f"{repository}/{name}:{version}", _flags(component), paths)
    return pods


def image_of(manifest: str) -> str:
    """The image in a manifest; empty when there is none."""
    match = re.search(r"(?m)^\s+image: (\S+)$", manifest)
    return match[1] if match else ""


def command_of(manifest: str) -> list[str]:
    """The command in a manifest; empty when it is the image's."""
    block = re.search(r"(?m)^  - command:\n((?:    - .*\n)*)", manifest)
    return [line.removeprefix("    - ") for line in (block[1] if block else "").splitlines()]


def annotations_of(manifest: str) -> dict[str, str]:
    """The annotations in a manifest, without quotes; empty when there are none."""
    block = re.search(r"(?m)^  annotations:\n((?:    .*\n)*)", manifest)
    pairs = (line.strip().partition(": ") for line in (block[1] if block else "").splitlines())
    return {name: value.strip('"') for name, _, value in pairs}


def host_paths_of(manifest: str) -> list[str]:
    """The host paths of the volumes in a manifest."""
    return re.findall(r"(?m)^\s+path: (\S+)$", manifest)


def _flags(part: Mapping[str, Any]) -> list[str]:
    return [f"--{arg['name']}={arg['value']}" for arg in part.get("extraArgs") or ()]
