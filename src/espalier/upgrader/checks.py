"""Preconditions, checked before anything on the node is touched. Each check raises `StepFailed`."""

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
"""Bytes that are to stay free."""
BACKUPS_OF_KUBEADM = "/etc/kubernetes/tmp"
RELEASE = ("/etc/os-release", "/usr/lib/os-release")


def before_work(node: Node, wanted: str, changes: Changes) -> None:
    """All checks; `wanted` is the version that the NodeUpgrade asks for, empty when the caller does not say."""
    right_image(node, wanted)
    right_system(node)
    targets = services.all_programs(node)
    right_versions(node)
    healthy_etcd(node)
    check_changes(node, changes)
    enough_room(node, targets)


def right_image(node: Node, wanted: str) -> None:
    """The image carries the version asked for, for this machine."""
    contents = node.contents
    if wanted and wanted != contents.version:
        raise StepFailed(
            f"the upgrader image carries Kubernetes {contents.version}, the node is to be upgraded to {wanted}: "
            f"correct the image of {wanted} in the ConfigMap of upgrader images"
        )
    if contents.machine != os.uname().machine:
        raise StepFailed(
            f"the upgrader image is for {contents.machine}, this node is {os.uname().machine}: "
            "give an image for the node's architecture"
        )


def right_system(node: Node) -> None:
    """The node runs a system whose layout is known."""
    text = next((text for path in RELEASE if (text := node.files.text(path))), "")
    said = {key: value.strip("\"'") for key, _, value in (line.strip().partition("=") for line in text.splitlines())}
    name = said.get("ID", "")
    if name not in SYSTEMS:
        shown = said.get("PRETTY_NAME") or name or "unknown (no /etc/os-release)"
        raise StepFailed(
            f"the node's system is {shown}: nodes of {' and '.join(SYSTEMS)} are upgraded in place, others are not; "
            "nothing was changed; replace the node by a rolling update"
        )


def right_versions(node: Node) -> None:
    """The step is one that Kubernetes supports, with the API server that answers and the kubelet that is there."""
    target = node.contents.kubernetes
    kubelet = host_kubelet(node)
    if target < kubelet:
        raise StepFailed(
            f"the node's kubelet has version {kubelet}, which is newer than {target}: nothing is downgraded"
        )
    if node.control_plane and target.minor > kubelet.minor + 1:
        raise StepFailed(
            f"the control plane node has version {kubelet}: it is upgraded one minor at a time, "
            f"so v{target.major}.{kubelet.minor + 1} has to come before {target}"
        )
    compare_with_api_server(node, target)


def compare_with_api_server(node: Node, target: Version) -> None:
    """A kubelet of the target version may talk to the API server that there is."""
    server = api_server(node)
    newest = server.minor + (1 if node.control_plane else 0)  # the first node of a control plane goes ahead
    if target.minor > newest:
        raise StepFailed(
            f"the API server has version {server}, which is too old for a node of {target}: "
            + ("minors are upgraded one at a time" if node.control_plane else "upgrade the control plane first")
        )
    if target.minor < server.minor - OLDEST_KUBELET:
        raise StepFailed(f"the API server has version {server}, which serves no node as old as {target}")


def host_kubelet(node: Node) -> Version:
    """The version of the kubelet that lies on the host."""
    path = next(iter(services.kubelet_program(node)))
    result = node.commands.run(path, "--version")
    if result.code:
        raise StepFailed(f"{path} --version ended with {result.code} ({result.last_lines()}): repair the kubelet first")
    return parse_version(result.output, f"{path} --version")


def api_server(node: Node) -> Version:
    """The version of the API server that answers."""
    try:
        answer = node.api.ask("GET", "/version")
    except Unreachable as error:
        raise StepFailed(f"{error}: nothing was changed; see that the node reaches it, then delete the pod") from error
    found = find_version(str(answer.tree.get("gitVersion", ""))) if isinstance(answer.tree, dict) else None
    if answer.status != 200 or found is None:
        raise StepFailed(f"the API server does not tell its version ({answer.reason})")
    return found


def healthy_etcd(node: Node) -> None:
    """On a control plane node: the API server is ready, and so is etcd below it."""
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
            "repair it, then delete the pod to try again"
        )


def enough_room(node: Node, targets: Mapping[str, str]) -> None:
    """Each file system has room for the copies, for kubeadm's backups, and for ours and what is written where those
    can't be shared.
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
                f"{(needed[device] + SPARE) // 2**20} MiB: nothing was changed; make room, then delete the pod"
            )


def _backups_of_kubeadm(node: Node) -> int:
    """Bytes that kubeadm needs for its backups of manifests and of etcd's data, at the most."""
    if not node.control_plane:
        return 0
    manifest = node.files.text(f"{MANIFESTS}/etcd.yaml")
    data = re.search(r"--data-dir=(/[^\s\"',]+)", manifest)
    return node.files.folder_size(MANIFESTS) + (node.files.folder_size(data[1]) if data else 0)
