"""The static pods of a simulated control plane node, as kubeadm renders them of its configuration.

Standard library only: the stand-ins of a node's programs use it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MIRROR = "kubernetes.io/config.mirror"
"""On a pod that shows a static pod: the kubelet recreates it when somebody deletes it."""

COMPONENTS = {
    "kube-apiserver": "apiServer",
    "kube-controller-manager": "controllerManager",
    "kube-scheduler": "scheduler",
}
"""Component -> its part of kubeadm's ClusterConfiguration."""


@dataclass(frozen=True)
class StaticPod:
    """One component."""

    name: str
    image: str
    flags: Sequence[str] = ()
    host_paths: Sequence[str] = ()

    @property
    def manifest(self) -> str:
        """Its manifest, written as kubeadm writes it."""
        command = "".join(f"    - {flag}\n" for flag in (self.name, *self.flags))
        volumes = "".join(f"  - hostPath:\n      path: {path}\n" for path in self.host_paths)
        return (
            f"apiVersion: v1\nkind: Pod\nmetadata:\n  name: {self.name}\n  namespace: kube-system\nspec:\n"
            f"  containers:\n  - command:\n{command}    image: {self.image}\n    name: {self.name}\n"
            + (f"  volumes:\n{volumes}" if volumes else "")
        )


def rendered(configuration: Mapping[str, Any], version: str) -> dict[str, StaticPod]:
    """Component -> its static pod, as kubeadm of that version renders it; without etcd where that is elsewhere."""
    repository = configuration.get("imageRepository") or "registry.k8s.io"
    etcd = configuration.get("etcd") or {}
    local = etcd.get("local") or {}
    found = {}
    if not etcd.get("external"):
        image = f"{local.get('imageRepository') or repository}/etcd:{local.get('imageTag') or 'latest'}"
        data = str(local.get("dataDir") or "/var/lib/etcd")
        flags = (f"--data-dir={data}", *_flags(local))
        found["etcd"] = StaticPod("etcd", image, flags, ("/etc/kubernetes/pki/etcd", data))
    for name, part in COMPONENTS.items():
        asked = configuration.get(part) or {}
        paths = ("/etc/kubernetes/pki", *(str(one["hostPath"]) for one in asked.get("extraVolumes") or ()))
        found[name] = StaticPod(name, f"{repository}/{name}:{version}", _flags(asked), paths)
    return found


def image_of(manifest: str) -> str:
    """The image in a manifest; empty when there is none."""
    found = re.search(r"(?m)^\s+image: (\S+)$", manifest)
    return found[1] if found else ""


def command_of(manifest: str) -> list[str]:
    """The command in a manifest; empty when it is the image's."""
    block = re.search(r"(?m)^  - command:\n((?:    - .*\n)*)", manifest)
    return [line.removeprefix("    - ") for line in (block[1] if block else "").splitlines()]


def annotations_of(manifest: str) -> dict[str, str]:
    """The annotations in a manifest."""
    block = re.search(r"(?m)^  annotations:\n((?:    .*\n)*)", manifest)
    pairs = (line.strip().partition(": ") for line in (block[1] if block else "").splitlines())
    return {name: value.strip('"') for name, _, value in pairs}


def host_paths_of(manifest: str) -> list[str]:
    """The paths of the host that it mounts."""
    return re.findall(r"(?m)^\s+path: (\S+)$", manifest)


def _flags(part: Mapping[str, Any]) -> list[str]:
    return [f"--{one['name']}={one['value']}" for one in part.get("extraArgs") or ()]
