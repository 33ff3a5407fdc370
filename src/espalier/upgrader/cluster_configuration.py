"""Changes to the text of kubeadm's ClusterConfiguration, which is YAML as kubeadm itself writes it, or JSON.

kubeadm writes block mappings, two spaces deep, one scalar a line, so lines are enough; and a library for YAML would be
the only one in the image. Text that does not look like that is refused by `StepFailed`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from .failures import StepFailed

GONE_GATES = {"ControlPlaneKubeletLocalMode": 36}
"""Feature gate -> the minor of Kubernetes whose kubeadm does not know it any more (Cluster API drops it there too)."""


def for_version(text: str, minor: int, etcd_tag: str) -> str:
    """The configuration as `kubeadm upgrade apply` needs it for a minor version; an empty tag leaves etcd's image."""
    if text.lstrip().startswith("{"):
        return _json_for_version(text, minor, etcd_tag)
    for gate, gone in GONE_GATES.items():
        if minor >= gone:
            text = without(text, ("featureGates", gate))
    return with_value(text, ("etcd", "local", "imageTag"), etcd_tag) if etcd_tag else text


def kubernetes_version(text: str) -> str:
    """The version that kubeadm renders the control plane with; empty when the configuration has none."""
    if text.lstrip().startswith("{"):
        return str(json.loads(text).get("kubernetesVersion") or "")
    return value(text, ("kubernetesVersion",)) or ""


def has_external_etcd(text: str) -> bool:
    """True if etcd runs elsewhere than on the nodes of the control plane."""
    if text.lstrip().startswith("{"):
        return bool((json.loads(text).get("etcd") or {}).get("external"))
    return value(text, ("etcd", "external")) is not None


def _json_for_version(text: str, minor: int, etcd_tag: str) -> str:
    tree = json.loads(text)
    gates = tree.get("featureGates") or {}
    for gate in [gate for gate, gone in GONE_GATES.items() if minor >= gone and gate in gates]:
        del gates[gate]
    if not gates:
        tree.pop("featureGates", None)
    if etcd_tag:
        tree.setdefault("etcd", {}).setdefault("local", {})["imageTag"] = etcd_tag
    return text if tree == json.loads(text) else json.dumps(tree, indent=2)


def value(text: str, path: Sequence[str]) -> str | None:
    """The scalar at a path; None when it is not there, empty for a mapping."""
    start, _ = _find(text.splitlines(), path)
    return None if start is None else text.splitlines()[start].partition(":")[2].strip().strip("\"'")


def with_value(text: str, path: Sequence[str], new: str) -> str:
    """The text with a scalar at a path whose parent is there. Raises `StepFailed` when the parent is not."""
    lines = text.splitlines()
    line = f"{'  ' * (len(path) - 1)}{path[-1]}: {new}"
    start, _ = _find(lines, path)
    if start is not None:
        lines[start] = line
    else:
        parent, _ = _find(lines, path[:-1])
        if parent is None or lines[parent].rstrip().endswith("{}"):
            raise StepFailed(
                f"kubeadm-config has no {'.'.join(path[:-1])}, so {'.'.join(path)} can't be set: "
                "the control plane is upgraded in place only with etcd on its own nodes"
            )
        lines.insert(parent + 1, line)
    return "\n".join(lines) + "\n"


def without(text: str, path: Sequence[str]) -> str:
    """The text without what is at a path, and without its parent when that is empty then."""
    lines = text.splitlines()
    start, end = _find(lines, path)
    if start is None:
        return text
    del lines[start:end]
    parent, after = _find(lines, path[:-1])
    if parent is not None and after == parent + 1:
        del lines[parent]
    return "\n".join(lines) + "\n"


def _find(lines: Sequence[str], path: Sequence[str]) -> tuple[int | None, int]:
    """The line of a path, and the line after all that belongs to it."""
    start, end = 0, len(lines)
    found = None
    for depth, key in enumerate(path):
        indent = "  " * depth
        found = next((n for n in range(start, end) if lines[n].startswith(f"{indent}{key}:")), None)
        if found is None:
            return None, end
        start = found + 1
        deeper = indent + "  "
        end = next((n for n in range(start, end) if not lines[n].startswith((deeper, f"{indent}- "))), end)
    return found, end
