"""Preconditions, checked before anything on the node changes. Each check raises `StepFailed`."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Mapping

from . import services
from .api import Unreachable
from .changes import Changes, check_changes
from .contents import Version, find_version, parse_version
from .host import StepFailed
from .node import Node
from .static_pods import MANIFESTS

SYSTEMS = ("ubuntu", "debian")
OLDEST_KUBELET = 3
"""Minors by which a kubelet may be older than its API server (Kubernetes' version skew policy)."""
SPARE = 64 * 1024 * 1024
"""Bytes that must stay free."""
BACKUPS_OF_KUBEADM = "/etc/kubernetes/tmp"
RELEASE = ("/etc/os-release", "/usr/lib/os-release")


def before_work(node: Node, wanted: str, changes: Changes) -> None:
    """All checks; `wanted` is the version of the NodeUpgrade, empty if unknown."""
    right_image(node, wanted)
    right_system(node)
    targets = services.all_programs(node)
    right_versions(node)
    healthy_etcd(node)
    check_changes(node, changes)
    enough_room(node, targets)


def right_image(node: Node, wanted: str) -> None:
    """Check that the image has the version asked for, for this architecture."""
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


def right_system(node: Node) -> None:
    """Check that the node's operating system is supported."""
    text = next((text for path in RELEASE if (text := node.files.text(path))), "")
    said = {key: value.strip("\"'") for key, _, value in (line.strip().partition("=") for line in text.splitlines())}
    name = said.get("ID", "")
    if name not in SYSTEMS:
        shown = said.get("PRETTY_NAME") or name or "unknown (no /etc/os-release)"
        raise StepFailed(
            f"the node's operating system is {shown}: only {' and '.join(SYSTEMS)} can be upgraded in place; "
            "nothing was changed; replace the node by a rolling update"
        )


def right_versions(node: Node) -> None:
    """Check that Kubernetes supports the upgrade, by the versions of the API server and the kubelet."""
    target = node.contents.kubernetes
    kubelet = host_kubelet(node)
    if target < kubelet:
        raise StepFailed(
            f"the node's kubelet has version {kubelet}, which is newer than {target}: downgrades are refused"
        )
    if node.control_plane and target.minor > kubelet.minor + 1:
        raise StepFailed(
            f"the control plane node has version {kubelet}: it must be upgraded one minor at a time, "
            f"to v{target.major}.{kubelet.minor + 1} before {target}"
        )
    compare_with_api_server(node, target)


def compare_with_api_server(node: Node, target: Version) -> None:
    """Check the version skew between a kubelet of the target version and the API server."""
    server = api_server(node)
    newest = server.minor + (1 if node.control_plane else 0)  # the first control plane node is upgraded first
    if target.minor > newest:
        raise StepFailed(
            f"the API server has version {server}, which is too old for a node with {target}: "
            + ("upgrade one minor at a time" if node.control_plane else "upgrade the control plane first")
        )
    if target.minor < server.minor - OLDEST_KUBELET:
        raise StepFailed(f"the API server has version {server}, which does not support nodes as old as {target}")


def host_kubelet(node: Node) -> Version:
    """The version of the kubelet on the host."""
    path = next(iter(services.kubelet_program(node)))
    result = node.commands.run(path, "--version")
    if result.code:
        raise StepFailed(f"{path} --version exited {result.code} ({result.last_lines()}): repair the kubelet first")
    return parse_version(result.output, f"{path} --version")


def api_server(node: Node) -> Version:
    """The version of the API server."""
    try:
        answer = node.api.ask("GET", "/version")
    except Unreachable as error:
        raise StepFailed(
            f"{error}: nothing was changed; make sure that the node can reach it, then delete the pod to retry"
        ) from error
    found = find_version(str(answer.tree.get("gitVersion", ""))) if isinstance(answer.tree, dict) else None
    if answer.status != 200 or found is None:
        raise StepFailed(f"the API server does not report its version ({answer.reason})")
    return found


def healthy_etcd(node: Node) -> None:
    """Check, on a control plane node, that the API server and its etcd are ready."""
    if not node.control_plane:
        return
    try:
        answer = node.api.ask("GET", "/readyz?verbose")
    except Unreachable as error:
        raise StepFailed(f"{error}: nothing was changed") from error
    failing = [line[3:].split(" failed")[0] for line in answer.text.splitlines() if line.startswith("[-]")]
    if answer.status != 200 or failing:
        what = ", ".join(failing) or answer.reason
        raise StepFailed(
            f"the control plane is not healthy before the upgrade ({what}): nothing was changed; "
            "repair it, then delete the pod to retry"
        )


def enough_room(node: Node, targets: Mapping[str, str]) -> None:
    """Check that each file system has room for the copies and backups, including those of kubeadm, that can't be hard
    links.
    """
    needed: dict[int, int] = defaultdict(int)
    free: dict[int, tuple[int, str]] = {}

    def take(place: str, size: int) -> int:
        device, room = node.files.room(place)
        needed[device] += size
        free.setdefault(device, (room, place))
        return device

    if kept := _backups_of_kubeadm(node):
        take(BACKUPS_OF_KUBEADM, kept)
    seen = set()
    for path, name in targets.items():
        file = node.contents.files[name]
        copied = node.contents.copied(name)
        twin = file.checksum in seen or node.files.size(copied) == file.size
        seen.add(file.checksum)
        device = take(copied, 0 if twin else file.size)
        if take(path, 0) != device:
            take(path, file.size)
            take(node.contents.backup(path), node.files.size(path))
    for room, place in free.values():
        device, _ = node.files.room(place)
        if room < needed[device] + SPARE:
            raise StepFailed(
                f"the file system of {place} has {room // 2**20} MiB free, the upgrade needs "
                f"{(needed[device] + SPARE) // 2**20} MiB: nothing was changed; make room, then delete the pod to retry"
            )


def _backups_of_kubeadm(node: Node) -> int:
    """The most bytes that kubeadm needs for its backups of manifests and etcd's data."""
    if not node.control_plane:
        return 0
    manifest = node.files.text(f"{MANIFESTS}/etcd.yaml")
    data = re.search(r"--data-dir=(/[^\s\"',]+)", manifest)
    return node.files.folder_size(MANIFESTS) + (node.files.folder_size(data[1]) if data else 0)
