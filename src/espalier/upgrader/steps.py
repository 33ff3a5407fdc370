"""The steps that bring files to the host. Each returns a sentence that says what was done."""

from __future__ import annotations

from urllib.parse import quote

from . import checks, layout, leftovers, services
from .api import Unreachable
from .contents import WORK
from .failures import StepFailed
from .lock import LOCK
from .node import Node, on_disk
from .replacing import PROGRAM, find_outdated, replace, replace_and_restart
from .services import WELL, Verdict
from .versions import find

CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
READY_WITHIN = 180
"""Seconds within which a node says that it is ready, with the new kubelet."""


def copy(node: Node, wanted: str = "") -> str:
    """Check what has to hold before work starts, then copy all components into the work folder on the host."""
    checks.before_work(node, wanted)
    copied = 0
    first: dict[str, str] = {}  # several programs may be one file
    try:
        for name, file in sorted(node.contents.files.items()):
            target = node.contents.copied(name)
            twin = first.setdefault(file.checksum, target)
            if node.files.checksum(target) == file.checksum:
                continue
            node.files.make_folder(target.rpartition("/")[0])
            source = node.carried(name) if twin == target else node.files.place(twin)
            node.files.put(source, target, expected=file.checksum, mode=PROGRAM, share=twin != target)
            copied += 1
    except OSError as error:
        raise on_disk(error, "the components could not be copied to the host") from error
    return f"copied {copied} of {len(node.contents.files)} programs to {node.contents.work}; the others were there"


def containerd(node: Node) -> str:
    """Upgrade containerd and restart it; running containers stay, their shims do not depend on it."""
    targets = layout.containerd(node)
    client = f"{next(iter(targets)).rpartition('/')[0]}/ctr"

    def healthy() -> Verdict:
        result = node.commands.run(client, f"--address={CONTAINERD_SOCKET}", "version", timeout=10)
        return WELL if not result.code else Verdict(f"ctr version ended with {result.code}: {result.last_lines()}")

    version = node.contents.versions.get(layout.CONTAINERD, "")
    if replace_and_restart(node, layout.CONTAINERD, targets, healthy):
        return f"containerd {version} was installed on the host and runs"
    return f"containerd {version} was there already"


def cni_plugins(node: Node) -> str:
    """Upgrade the CNI plugins; what else lies in their folder is left alone."""
    replaced = replace(node, layout.cni_plugins(node))
    version = node.contents.versions.get(layout.CNI_PLUGINS, "")
    return f"replaced {len(replaced)} CNI plugins by those of {version}"


def kubelet(node: Node) -> str:
    """Upgrade kubectl and the kubelet and restart it; done when the node says with the new version that it is ready."""
    checks.compare_with_api_server(node, node.contents.kubernetes)
    replace(node, layout.tool(node, "kubectl"))
    targets = layout.kubelet(node)
    if replace_and_restart(node, "kubelet", targets, lambda: _reported(node), timeout=READY_WITHIN):
        return f"kubelet {node.contents.version} runs, and the node is ready"
    verdict = _reported(node)
    if verdict.missing:
        raise StepFailed(f"kubelet {node.contents.version} is on the host already, but {verdict.missing}")
    return f"kubelet {node.contents.version} was there already, and the node is ready"


def _reported(node: Node) -> Verdict:
    """Check by the API server that the node's kubelet has the new version, and is ready."""
    try:
        answer = node.api.ask("GET", f"/api/v1/nodes/{quote(node.name)}")
    except Unreachable as error:
        return Verdict(str(error), sure=False)
    if answer.status != 200:
        return Verdict(f"the node {node.name} can't be read ({answer.reason})", sure=False)
    status = answer.tree.get("status", {})
    version = status.get("nodeInfo", {}).get("kubeletVersion", "")
    if find(version) != node.contents.kubernetes:
        return Verdict(f"the node {node.name} still reports kubelet {version or 'of no version'}")
    conditions = {one.get("type"): one for one in status.get("conditions", ())}
    ready = conditions.get("Ready", {})
    if ready.get("status") != "True":
        return Verdict(f"the node {node.name} is not ready ({ready.get('message') or 'it does not say why'})")
    return WELL


def done(node: Node) -> str:
    """See that all is on the host and runs, then take the work folder and all backups away, kubeadm's too."""
    targets = layout.everything(node)
    outdated = find_outdated(node, targets)
    if outdated:
        raise StepFailed(
            f"{', '.join(outdated)} {'is' if len(outdated) == 1 else 'are'} not what the upgrader image carries: "
            "a step was left out, or the host was changed since; the NodeUpgrade has to begin again"
        )
    for name in (layout.CONTAINERD, "kubelet"):
        if not (found := services.show(node, name)).active:
            raise StepFailed(f"{name} is {found.state} after the upgrade; repair it, then delete the pod")
    try:
        for path in targets:
            node.files.sweep(path)
        leftovers.remove(node)
        node.files.remove_folder(node.contents.work)
        if not node.files.names(WORK):
            node.files.remove_folder(WORK)
        node.files.remove(LOCK)
    except OSError as error:
        raise on_disk(error, f"{node.contents.work} could not be removed") from error
    return f"the node runs Kubernetes {node.contents.version}; the work folder is gone"
