"""Preconditions, checked before anything on the node changes. Each check raises `StepFailed`."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping

from . import services
from .api import Unreachable
from .changes import Changes, check_changes
from .contents import Version, find_version, parse_version
from .etcd import MANIFEST, check_etcd, data_folder
from .host import StepFailed
from .node import Node
from .static_pods import MANIFESTS

SUPPORTED_SYSTEMS = ("ubuntu", "debian")
OLDEST_CONTAINERD = (1, 7)
"""The oldest minor version of containerd whose CRI the kubelets of Kubernetes 1.34 to 1.37 take."""
NEEDED = (
    f"{services.CONTAINERD}/containerd",
    *(f"{services.KUBERNETES}/{name}" for name in ("kubeadm", "kubectl", "kubelet")),
)
"""Programs of each image: without its containerd, that of the node would stay, however old it is."""
MAX_KUBELET_SKEW = 3
"""Minors by which a kubelet may be older than its API server (Kubernetes' version skew policy)."""
SPARE_BYTES = 64 * 1024 * 1024
"""Bytes that must stay free."""
BACKUPS_OF_KUBEADM = "/etc/kubernetes/tmp"
OS_RELEASE = ("/etc/os-release", "/usr/lib/os-release")


def check_preconditions(node: Node, wanted: str, changes: Changes, etcd: str = "") -> None:
    """Run all checks; `wanted` and `etcd` are the versions of the NodeUpgrade, empty if unknown."""
    check_image(node, wanted)
    check_operating_system(node)
    targets = services.all_programs(node)
    check_versions(node)
    check_control_plane(node)
    check_etcd(node, etcd)
    check_changes(node, changes)
    check_disk_space(node, targets)


def check_image(node: Node, wanted: str) -> None:
    """Check that the image has the version asked for, for this architecture, with all that is needed."""
    contents = node.contents
    if wanted and wanted != contents.version:
        raise StepFailed(
            f"the upgrader image has Kubernetes {contents.version}, but the node is to be upgraded to {wanted}: "
            f"correct the image for {wanted} in the ConfigMap of upgrader images"
        )
    if contents.machine != os.uname().machine:
        raise StepFailed(
            f"the upgrader image is for {contents.machine}, but this node is {os.uname().machine}: "
            "use an image for the node's architecture"
        )
    if missing := [name for name in NEEDED if name not in contents.files]:
        raise StepFailed(
            f"the upgrader image lacks {', '.join(missing)}: nothing was changed; use an image with all components"
        )
    containerd = contents.versions.get(services.CONTAINERD, "")
    version = find_version(containerd)
    if version is not None and (version.major, version.minor) < OLDEST_CONTAINERD:
        oldest = ".".join(map(str, OLDEST_CONTAINERD))
        raise StepFailed(
            f"the upgrader image has containerd {containerd}, which is too old for the kubelet of {contents.version} "
            f"({oldest} or newer is allowed): nothing was changed; use an image with a newer containerd"
        )


def check_operating_system(node: Node) -> None:
    """Check that the node's operating system is supported."""
    text = next((text for path in OS_RELEASE if (text := node.files.text(path))), "")
    os_release = {
        key: value.strip("\"'") for key, _, value in (line.strip().partition("=") for line in text.splitlines())
    }
    name = os_release.get("ID", "")
    if name not in SUPPORTED_SYSTEMS:
        shown = os_release.get("PRETTY_NAME") or name or "unknown (no /etc/os-release)"
        raise StepFailed(
            f"the node's operating system is {shown}: only {' and '.join(SUPPORTED_SYSTEMS)} can be upgraded in place; "
            "nothing was changed; replace the node by a rolling update"
        )


def check_versions(node: Node) -> None:
    """Check that Kubernetes supports the upgrade, by the versions of the API server and the kubelet."""
    target = node.contents.kubernetes
    kubelet = kubelet_version(node)
    if target < kubelet:
        raise StepFailed(
            f"the node's kubelet has version {kubelet}, which is newer than {target}: downgrades are refused"
        )
    if node.control_plane and target.minor > kubelet.minor + 1:
        raise StepFailed(
            f"the control plane node has version {kubelet}: it must be upgraded one minor at a time, "
            f"to v{target.major}.{kubelet.minor + 1} before {target}"
        )
    check_version_skew(node, target)


def check_version_skew(node: Node, target: Version) -> None:
    """Check the version skew between a kubelet of the target version and the API server."""
    server = api_server_version(node)
    newest = server.minor + (1 if node.control_plane else 0)  # the first control plane node is upgraded first
    if target.minor > newest:
        raise StepFailed(
            f"the API server has version {server}, which is too old for a node with {target}: "
            + ("upgrade one minor at a time" if node.control_plane else "upgrade the control plane first")
        )
    if target.minor < server.minor - MAX_KUBELET_SKEW:
        raise StepFailed(f"the API server has version {server}, which does not support nodes as old as {target}")


def kubelet_version(node: Node) -> Version:
    """The version of the kubelet on the host."""
    path = next(iter(services.kubelet_program(node)))
    result = node.commands.run(path, "--version")
    if result.code:
        raise StepFailed(f"{path} --version exited {result.code} ({result.last_lines()}): repair the kubelet first")
    return parse_version(result.output, f"{path} --version")


def api_server_version(node: Node) -> Version:
    """The version that the API server reports."""
    try:
        answer = node.api.request("GET", "/version")
    except Unreachable as error:
        raise StepFailed(
            f"{error}: nothing was changed; make sure that the node can reach it, then delete the pod to retry"
        ) from error
    version = find_version(str(answer.tree.get("gitVersion", ""))) if isinstance(answer.tree, dict) else None
    if answer.status != 200 or version is None:
        raise StepFailed(f"the API server does not report its version ({answer.reason})")
    return version


def check_control_plane(node: Node) -> None:
    """Check, on a control plane node, that the API server and its etcd are ready."""
    if not node.control_plane:
        return
    try:
        answer = node.api.request("GET", "/readyz?verbose")
    except Unreachable as error:
        raise StepFailed(f"{error}: nothing was changed") from error
    failing = [line[3:].split(" failed")[0] for line in answer.text.splitlines() if line.startswith("[-]")]
    if answer.status != 200 or failing:
        problem = ", ".join(failing) or answer.reason
        raise StepFailed(
            f"the control plane is not healthy before the upgrade ({problem}): nothing was changed; "
            "repair it, then delete the pod to retry"
        )


def check_disk_space(node: Node, targets: Mapping[str, str]) -> None:
    """Check that each file system has space for the copies and backups that can't be hard links, and for those of
    kubeadm.
    """
    needed: dict[int, int] = defaultdict(int)
    free: dict[int, tuple[int, str]] = {}

    def reserve(path: str, size: int) -> int:
        device, room = node.files.room(path)
        needed[device] += size
        free.setdefault(device, (room, path))
        return device

    if backups := _backups_of_kubeadm(node):
        reserve(BACKUPS_OF_KUBEADM, backups)
    seen = set()
    for path, name in targets.items():
        file = node.contents.files[name]
        copied = node.contents.copied(name)
        is_shared = file.checksum in seen or node.files.size(copied) == file.size
        seen.add(file.checksum)
        device = reserve(copied, 0 if is_shared else file.size)
        if reserve(path, 0) != device:
            reserve(path, file.size)
            reserve(node.contents.backup(path), node.files.size(path))
    for room, place in free.values():
        device, _ = node.files.room(place)
        if room < needed[device] + SPARE_BYTES:
            raise StepFailed(
                f"the file system of {place} has {room // 2**20} MiB free, the upgrade needs "
                f"{(needed[device] + SPARE_BYTES) // 2**20} MiB: nothing was changed; "
                "make room, then delete the pod to retry"
            )


def _backups_of_kubeadm(node: Node) -> int:
    """The bytes that kubeadm needs at most for its backups of manifests and etcd's data."""
    if not node.control_plane:
        return 0
    manifest = node.files.text(MANIFEST)
    data = data_folder(node, manifest) if manifest else ""
    return node.files.folder_size(MANIFESTS) + (node.files.folder_size(data) if data else 0)
