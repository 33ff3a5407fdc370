"""Static pods of the node: their manifests, as kubeadm and people write them, and their mirror pods."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import quote

from .api import Unreachable
from .host import StepFailed
from .node import Node
from .services import show

MANIFESTS = "/etc/kubernetes/manifests"
RESTARTED = "anywhere.eks.amazonaws.com/restarted-by-upgrade"
"""Annotation of a static pod that was restarted because a file that it mounts changed."""
HASH = "kubernetes.io/config.hash"
"""Annotation of a mirror pod, by the kubelet: the hash of its manifest."""


def is_manifest(path: str) -> bool:
    """True if the kubelet reads a static pod from this path."""
    return path.rpartition("/")[0] == MANIFESTS


def manifest_paths(node: Node) -> list[str]:
    """The paths of static pod manifests."""
    names = node.files.names(MANIFESTS)
    return [f"{MANIFESTS}/{name}" for name in names if not name.startswith(".")]  # as the kubelet does


def manifests(node: Node) -> dict[str, str]:
    """Name -> text of the static pod manifests."""
    return {path.rpartition("/")[2]: node.files.text(path) for path in manifest_paths(node)}


def mounted(manifest: str, paths: Sequence[str]) -> list[str]:
    """The paths that a static pod mounts: kubeadm and most people write hostPath volumes as `path:`."""
    volumes = [path.strip("\"'") for path in re.findall(r"(?m)^\s+(?:- )?path: (\S+)\s*$", manifest)]
    return [path for path in paths if any(path == top or path.startswith(f"{top.rstrip('/')}/") for top in volumes)]


def _metadata(manifest: str) -> Iterator[tuple[int, str]]:
    """The numbered lines of a manifest's metadata."""
    lines = manifest.splitlines()
    start = next((number for number, line in enumerate(lines) if line.rstrip() == "metadata:"), len(lines))
    for number in range(start, len(lines)):
        if number > start and not lines[number].startswith("  "):
            return
        yield number, lines[number]


def without_annotation(manifest: str) -> str:
    """The manifest without the annotation that `annotated` adds."""
    lines = manifest.splitlines(keepends=True)
    numbers = [number for number, line in _metadata(manifest) if line.strip().startswith(f"{RESTARTED}:")]
    for number in reversed(numbers):
        is_only = lines[number - 1] == "  annotations:\n" and not lines[number + 1 : number + 2][0].startswith("    ")
        del lines[number - 1 if is_only else number : number + 1]
    return "".join(lines)


def annotated(path: str, manifest: str, upgrade: str) -> str:
    """The manifest with a new annotation, so that the kubelet restarts its pod. Raises `StepFailed`."""
    lines = without_annotation(manifest).splitlines(keepends=True)
    numbers = {line.rstrip(): number for number, line in _metadata("".join(lines))}
    if "metadata:" not in numbers:
        raise StepFailed(f"{path} has no metadata block to annotate, so its pod can't be restarted")
    annotation = f'    {RESTARTED}: "{upgrade}"\n'
    if "  annotations:" in numbers:
        lines.insert(numbers["  annotations:"] + 1, annotation)
    else:
        lines.insert(numbers["metadata:"] + 1, f"  annotations:\n{annotation}")
    return "".join(lines)


def text_sum(text: str) -> str:
    """SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def mirror(node: Node, manifest: str) -> tuple[str, str, str]:
    """A static pod's name, the hash of the manifest that it runs (empty if it does not run), and a message on why it is
    not ready (empty if it is).
    """
    fields = {line.strip().partition(":")[0]: line.strip().partition(":")[2].strip() for _, line in _metadata(manifest)}
    name, namespace = fields.get("name", "").strip("\"'"), fields.get("namespace", "").strip("\"'") or "default"
    try:
        answer = node.api.request("GET", f"/api/v1/namespaces/{quote(namespace)}/pods/{quote(f'{name}-{node.name}')}")
    except Unreachable as error:
        return name, "", str(error)
    if answer.status != 200:
        return name, "", f"it does not exist ({answer.reason})"
    conditions = {
        condition.get("type"): condition for condition in (answer.tree.get("status") or {}).get("conditions") or ()
    }
    ready = conditions.get("Ready") or {}
    why = "" if ready.get("status") == "True" else ready.get("message") or "it is not ready"
    return name, str((answer.tree["metadata"].get("annotations") or {}).get(HASH, "")), why


def not_restarted(node: Node, due: Sequence[str], before: Mapping[str, Mapping[str, str]]) -> str:
    """A message on the first static pod that does not run its current manifest; empty if all do."""
    if due and not (kubelet := show(node, "kubelet")).active:
        return f"the kubelet, which starts static pods, is {kubelet.state}"
    for name in due:
        text = node.files.text(f"{MANIFESTS}/{name}")
        pod, running, why = mirror(node, text)
        if not running or running == before.get(name, {}).get("hash"):
            why = why or "it was not restarted"
        if why:
            return f"the static pod {pod} of {MANIFESTS}/{name} does not come up ({why})"
    return ""
