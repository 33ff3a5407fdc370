"""The steps on the host, in their order. Each returns a sentence that says what was done."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from . import checks, services
from .api import Unreachable
from .changes import (
    Changes,
    bring_files,
    check_changes,
    restart_static_pods,
    sweep_changes,
    take_back,
    wanted_flags,
)
from .checks import BACKUPS_OF_KUBEADM
from .contents import WORK, find_version
from .host import LOCK, Result, StepFailed
from .node import Node, on_disk
from .services import PROGRAM, WELL, Verdict, find_outdated, replace, replace_and_restart, tool_program

FIRST, OTHER, WORKER = "first-control-plane", "control-plane", "worker"
ROLES = (FIRST, OTHER, WORKER)
IGNORED = ("CoreDNSUnsupportedPlugins", "CoreDNSMigration")
"""Preflight errors on CoreDNS, which Cluster API upgrades by itself."""
DISTRIBUTED = ("--allow-experimental-upgrades", "--force")
"""To kubeadm, what a distributor appends to a version (`-eks-1-36-2`) makes it a preview, to be allowed."""
LEFT_OUT = "--skip-phases=addon/coredns"
"""CoreDNS is Cluster API's; and kubeadm fails at the version of one that a distributor has built."""
LONGEST_UPGRADE = 30 * 60
"""Seconds: kubeadm gives each of four static pods five minutes, and pulls images before."""
BACKUP_PREFIX = "kubeadm-"
CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
READY_WITHIN = 180
"""Seconds within which a node says that it is ready, with the new kubelet."""


@dataclass(frozen=True)
class How:
    """How kubeadm is run."""

    role: str
    """Of `ROLES`: the first control plane node applies the version, the others follow."""
    ignored: Sequence[str] = ()
    """Checks that the node was made without."""
    patches: str = ""
    """Folder of the host with patches that the node was made with."""


def copy(node: Node, wanted: str, changes: Changes) -> str:
    """Check what has to hold before work starts, then copy all components into the work folder on the host."""
    checks.before_work(node, wanted, changes)
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
    targets = services.containerd_programs(node)
    client = f"{next(iter(targets)).rpartition('/')[0]}/ctr"

    def healthy() -> Verdict:
        result = node.commands.run(client, f"--address={CONTAINERD_SOCKET}", "version", timeout=10)
        return WELL if not result.code else Verdict(f"ctr version ended with {result.code}: {result.last_lines()}")

    version = node.contents.versions.get(services.CONTAINERD, "")
    if replace_and_restart(node, services.CONTAINERD, targets, healthy):
        return f"containerd {version} was installed on the host and runs"
    return f"containerd {version} was there already"


def cni_plugins(node: Node) -> str:
    """Upgrade the CNI plugins; what else lies in their folder is left alone."""
    replaced = replace(node, services.cni_plugins_programs(node))
    version = node.contents.versions.get(services.CNI_PLUGINS, "")
    return f"replaced {len(replaced)} CNI plugins by those of {version}"


def kubeadm(node: Node, version: str, how: How, changes: Changes) -> str:
    """Replace kubeadm and bring the files that are to change, then upgrade the control plane or the node's share of it.

    kubeadm renders static pods by kubeadm-config: who made the pod has written it, and chosen the role by it. Its
    upgrade may be broken off and run again; a run that ended well is noted and not repeated.
    """
    checks.right_image(node, version)
    if (how.role != WORKER) != node.control_plane:
        raise StepFailed(
            f"the node is to be upgraded as {how.role}, but it has {'a' if node.control_plane else 'no'} "
            "static pod of a kube-apiserver: the nodeType of the NodeUpgrade is wrong; nothing was changed"
        )
    note = f"{node.contents.work}/kubeadm.done"
    done = f"{changes.upgrade}\n"
    if node.files.text(note) == done:
        return f"kubeadm {node.contents.version} has upgraded the node already"
    checks.compare_with_api_server(node, node.contents.kubernetes)
    checks.healthy_etcd(node)
    check_changes(node, changes)
    targets = tool_program(node, "kubeadm")
    replace(node, targets)
    _note_backups(node)
    bring_files(node, changes)
    _run(node, next(iter(targets)), version, how, changes)
    restart_static_pods(node, changes)
    try:
        node.files.make_folder(node.contents.work)
        node.files.write(note, done)
    except OSError as error:
        raise on_disk(error, "kubeadm has upgraded the node, but that can't be noted") from error
    return f"kubeadm has upgraded the node to {version} as {how.role}"


def kubelet(node: Node, changes: Changes) -> str:
    """Upgrade kubectl, the kubelet and its flags, and restart it; done when the node says with the new version that it
    is ready.
    """
    checks.compare_with_api_server(node, node.contents.kubernetes)
    replace(node, tool_program(node, "kubectl"))
    targets, note = services.kubelet_program(node), f"{node.contents.work}/kubelet.done"
    is_due = bool(changes) and node.files.text(note) != f"{changes.upgrade}\n"
    if replace_and_restart(
        node,
        "kubelet",
        targets,
        lambda: _reported(node),
        settings=wanted_flags(node, changes),
        is_due=is_due,
        timeout=READY_WITHIN,
    ):
        if is_due:
            node.files.write(note, f"{changes.upgrade}\n")
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
    if find_version(version) != node.contents.kubernetes:
        return Verdict(f"the node {node.name} still reports kubelet {version or 'of no version'}")
    conditions = {one.get("type"): one for one in status.get("conditions", ())}
    ready = conditions.get("Ready", {})
    if ready.get("status") != "True":
        return Verdict(f"the node {node.name} is not ready ({ready.get('message') or 'it does not say why'})")
    return WELL


def done(node: Node, changes: Changes) -> str:
    """See that all is on the host and runs, then take the work folder and all backups away, kubeadm's too."""
    targets = services.all_programs(node)
    outdated = find_outdated(node, targets)
    if outdated:
        raise StepFailed(
            f"{', '.join(outdated)} {'is' if len(outdated) == 1 else 'are'} not what the upgrader image carries: "
            "a step was left out, or the host was changed since; the NodeUpgrade has to begin again"
        )
    if any(node.files.text(path) != text for path, text in wanted_flags(node, changes).items()):
        raise StepFailed("the kubelet's flags are not as asked for: a step was left out, or they were changed since")
    for name in (services.CONTAINERD, "kubelet"):
        if not (found := services.show(node, name)).active:
            raise StepFailed(f"{name} is {found.state} after the upgrade; repair it, then delete the pod")
    try:
        for path in targets:
            node.files.sweep(path)
        sweep_changes(node, changes)
        _remove_backups(node)
        node.files.remove_folder(node.contents.work)
        if not node.files.names(WORK):
            node.files.remove_folder(WORK)
        node.files.remove(LOCK)
    except OSError as error:
        raise on_disk(error, f"{node.contents.work} could not be removed") from error
    return f"the node runs Kubernetes {node.contents.version}; the work folder is gone"


def _run(node: Node, program: str, version: str, how: How, changes: Changes) -> None:
    """Run kubeadm's upgrade. Raises `StepFailed`; the old files are there then, unless static pods need the new."""
    arguments = ["upgrade", "node"]
    if how.role == FIRST:
        arguments = ["upgrade", "apply", version, "--yes", *(DISTRIBUTED if "-" in version else ())]
    preflight = ",".join(dict.fromkeys((*IGNORED, *how.ignored)))
    options = [f"--ignore-preflight-errors={preflight}"]
    options += [LEFT_OUT] if node.control_plane else []
    options += [f"--patches={how.patches}"] if how.patches else []
    result = node.commands.follow(program, *arguments, *options, timeout=LONGEST_UPGRADE, say=node.say)
    if result.code:
        back = " and the old files were brought back" if changes.has_files and take_back(node, changes) else ""
        raise StepFailed(
            f"kubeadm {' '.join(arguments[:2])} ended with {result.code}: {_cause(result)}; "
            f"kubeadm may be run again{back}: remove the cause, then delete the pod"
        )


def _cause(result: Result) -> str:
    """Cause of a failure of kubeadm: the failed checks, or else its last lines."""
    checks_ = [line.strip() for line in result.output.splitlines() if line.strip().startswith("[ERROR ")]
    return "; ".join(checks_) or result.last_lines(3)


def _note_backups(node: Node) -> None:
    """Note what backups are there before kubeadm runs for the first time: of manifests and of etcd's data.

    kubeadm keeps them for people who have to repair a failed upgrade by hand, and never takes them away.
    """
    if not node.files.is_file(_backups(node)):
        node.files.make_folder(node.contents.work)
        node.files.write(_backups(node), json.dumps(_found(node)))


def _remove_backups(node: Node) -> None:
    """Take away the backups that came since then: the upgrade succeeded. What was there before stays."""
    before = node.files.text(_backups(node))
    if not before:
        return
    for name in _found(node):
        if name not in json.loads(before):
            node.files.remove_folder(f"{BACKUPS_OF_KUBEADM}/{name}")


def _backups(node: Node) -> str:
    return f"{node.contents.work}/kubeadm-backups.before"


def _found(node: Node) -> list[str]:
    return [name for name in node.files.names(BACKUPS_OF_KUBEADM) if name.startswith(BACKUP_PREFIX)]
