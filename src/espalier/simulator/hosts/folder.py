"""Creates the disk of a simulated node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from espalier.simulator.hosts.static_pods import StaticPod

CONTAINERD = ("containerd", "containerd-shim-runc-v2", "ctr")
CNI_PLUGINS = ("bridge", "host-local", "loopback", "portmap", "ptp")
KUBERNETES = ("kubeadm", "kubelet", "kubectl")
KUBELET_FLAGS = "--container-runtime-endpoint=unix:///run/containerd/containerd.sock"
UNITS = {"containerd": "/usr/local/bin/containerd", "kubelet": "/usr/bin/kubelet"}
"""Service -> path of its program, as installed by image-builder."""


CERTIFICATES = tuple(
    f"etc/kubernetes/{name}"
    for name in (
        *("admin.conf", "controller-manager.conf", "scheduler.conf"),
        *("pki/apiserver.crt", "pki/apiserver.key", "pki/front-proxy-client.crt", "pki/etcd/server.crt"),
    )
)
"""Paths of what kubeadm renews on a control plane node, as far as somebody reads it here."""


CONTROL_PLANE = {
    **dict.fromkeys(CERTIFICATES, "issued 0 times anew\n"),
    "var/lib/etcd/member/snap/db": "simulated data\n",
    f"var/lib/etcd/member/wal/{0:016x}-{0:016x}.wal": "",
}
"""Path -> text of files that workers lack."""


@dataclass(frozen=True)
class Machine:
    """The versions and images installed on a simulated machine."""

    name: str
    kubernetes: str
    containerd: str = "2.1.5"
    cni_plugins: str = "1.7.1"
    system: str = "ubuntu"
    static_pods: Sequence[StaticPod] = ()
    """Empty on a worker."""


def program(name: str, version: str) -> str:
    """The text of a program that only prints its version; the stand-ins read the version in the text."""
    return f"#!/bin/sh\n# simulated {name} {version}\necho {name} {version}\n"


def programs(machine: Machine) -> Mapping[str, str]:
    """Path -> text of all programs on the disk."""
    files: dict[str, str] = {}
    for names, folder, version in (
        (CONTAINERD, "usr/local/bin", machine.containerd),
        (CNI_PLUGINS, "opt/cni/bin", machine.cni_plugins),
        (KUBERNETES, "usr/bin", machine.kubernetes),
    ):
        files |= {f"{folder}/{name}": program(name, version) for name in names}
    return files


def components(kubernetes: str, containerd: str, cni_plugins: str) -> Mapping[str, str]:
    """`component/program` -> text of the programs in an upgrader image for simulated nodes."""
    groups: Sequence[tuple[str, Sequence[str], str]] = (
        ("kubernetes", KUBERNETES, kubernetes),
        ("containerd", CONTAINERD, containerd),
        ("cni-plugins", CNI_PLUGINS, cni_plugins),
    )
    return {f"{group}/{name}": program(name, version) for group, names, version in groups for name in names}


def make(root: Path, machine: Machine) -> None:
    """Install a machine into a folder; existing files are kept, so that a node keeps its changes."""
    files: dict[str, str] = {
        "etc/os-release": f'ID={machine.system}\nPRETTY_NAME="Simulated {machine.system}"\n',
        "etc/hostname": f"{machine.name}\n",
        **{f"etc/systemd/system/{name}.service": f"[Service]\nExecStart={path}\n" for name, path in UNITS.items()},
        **{f"etc/kubernetes/manifests/{pod.name}.yaml": pod.manifest for pod in machine.static_pods},
        "etc/kubernetes/kubelet.conf": "kind: Config\n",
        **(CONTROL_PLANE if machine.static_pods else {}),
        "etc/passwd": "root:x:0:0:root:/root:/bin/bash\n",
        "etc/group": "root:x:0:\n",
        "var/lib/kubelet/kubeadm-flags.env": f'KUBELET_KUBEADM_ARGS="{KUBELET_FLAGS}"\n',
    }
    for path, text in files.items():
        _put(root / path, text, 0o644)
    for path, text in programs(machine).items():
        _put(root / path, text, 0o755)
    for folder in ("run", "var/lib/kubelet", "var/log"):
        (root / folder).mkdir(parents=True, exist_ok=True)


def _put(path: Path, text: str, mode: int) -> None:
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
