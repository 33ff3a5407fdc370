"""The steps on the host, in order. Each returns a message on what was done."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from . import checks, services
from .api import Unreachable
from .changes import (
    Changes,
    check_changes,
    restart_static_pods,
    restore_files,
    sweep_changes,
    wanted_flags,
    write_files,
)
from .checks import BACKUPS_OF_KUBEADM
from .contents import WORK, find_version
from .host import LOCK, Result, StepFailed
from .node import Node, disk_failure
from .services import HEALTHY, PROGRAM, Verdict, find_outdated, replace, replace_and_restart, tool_program

FIRST, OTHER, WORKER = "first-control-plane", "control-plane", "worker"
ROLES = (FIRST, OTHER, WORKER)
IGNORED = ("CoreDNSUnsupportedPlugins", "CoreDNSMigration")
"""Preflight errors on CoreDNS, which Cluster API upgrades."""
ALLOW_DISTRIBUTION_VERSION = ("--allow-experimental-upgrades", "--force")
"""kubeadm takes a version with a distributor's suffix (`-eks-1-36-2`) for a preview, which must be allowed."""
SKIP_COREDNS = "--skip-phases=addon/coredns"
"""Cluster API upgrades CoreDNS, and kubeadm fails at the version of a distributor's build."""
KUBEADM_TIMEOUT = 30 * 60
"""Seconds; kubeadm allows five minutes for each of four static pods, and pulls images before."""
BACKUP_PREFIX = "kubeadm-"
CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
READY_TIMEOUT = 180
"""Seconds within which the node must be ready with the new kubelet."""


@dataclass(frozen=True)
class KubeadmOptions:
    """How kubeadm is run."""

    role: str
    """One of `ROLES`: the first control plane node applies the version, the others follow."""
    ignored: Sequence[str] = ()
    """Preflight checks to ignore, besides `IGNORED`."""
    patches: str = ""
    """Directory of the host with patches for kubeadm."""


def copy(node: Node, wanted: str, changes: Changes, etcd: str = "") -> str:
    """Check the preconditions, then copy all components into the work directory on the host."""
    checks.check_preconditions(node, wanted, changes, etcd)
    copied = 0
    first: dict[str, str] = {}  # several programs may be one file
    try:
        for name, file in sorted(node.contents.files.items()):
            target = node.contents.copied(name)
            twin = first.setdefault(file.checksum, target)
            if node.files.checksum(target) == file.checksum:
                continue
            node.files.make_folder(target.rpartition("/")[0])
            source = node.image_file(name) if twin == target else node.files.place(twin)
            node.files.put(source, target, expected=file.checksum, mode=PROGRAM, share=twin != target)
            copied += 1
    except OSError as error:
        raise disk_failure(error, "can't copy the components to the host") from error
    return f"copied {copied} of {len(node.contents.files)} programs to {node.contents.work}; others were there already"


def containerd(node: Node) -> str:
    """Upgrade containerd and restart it; containers keep running, as their shims do not depend on it."""
    targets = services.containerd_programs(node)
    client = f"{next(iter(targets)).rpartition('/')[0]}/ctr"

    def healthy() -> Verdict:
        result = node.commands.run(client, f"--address={CONTAINERD_SOCKET}", "version", timeout=10)
        return HEALTHY if not result.code else Verdict(f"ctr version exited {result.code}: {result.last_lines()}")

    version = node.contents.versions.get(services.CONTAINERD, "")
    if replace_and_restart(node, services.CONTAINERD, targets, healthy):
        return f"containerd {version} was installed on the host and runs"
    return f"containerd {version} was installed already"


def cni_plugins(node: Node) -> str:
    """Upgrade the CNI plugins; other files in their directory stay."""
    replaced = replace(node, services.cni_plugins_programs(node))
    version = node.contents.versions.get(services.CNI_PLUGINS, "")
    return f"replaced {len(replaced)} CNI plugins with those of {version}"


def kubeadm(node: Node, version: str, kubeadm_options: KubeadmOptions, changes: Changes) -> str:
    """Replace kubeadm and write changed files, then run `kubeadm upgrade`.

    kubeadm renders static pods from kubeadm-config, which the controller has updated, and by which it has chosen the
    role. An interrupted run of kubeadm can be repeated; a successful one is recorded and not repeated.
    """
    checks.check_image(node, version)
    if (kubeadm_options.role != WORKER) != node.control_plane:
        raise StepFailed(
            f"the node is to be upgraded as {kubeadm_options.role}, but it has {'a' if node.control_plane else 'no'} "
            "static pod of kube-apiserver: spec.nodeType of the NodeUpgrade is wrong; nothing was changed"
        )
    note = f"{node.contents.work}/kubeadm.done"
    done = f"{changes.upgrade}\n"
    if node.files.text(note) == done:
        return f"kubeadm {node.contents.version} had already upgraded the node"
    checks.check_version_skew(node, node.contents.kubernetes)
    checks.check_control_plane(node)
    check_changes(node, changes)
    targets = tool_program(node, "kubeadm")
    replace(node, targets)
    _record_backups(node)
    write_files(node, changes)
    _run(node, next(iter(targets)), version, kubeadm_options, changes)
    restart_static_pods(node, changes)
    try:
        node.files.make_folder(node.contents.work)
        node.files.write(note, done)
    except OSError as error:
        raise disk_failure(error, "kubeadm upgraded the node, but this can't be recorded") from error
    return f"kubeadm upgraded the node to {version} as {kubeadm_options.role}"


def kubelet(node: Node, changes: Changes) -> str:
    """Upgrade kubectl, the kubelet and its flags, and restart it; done once the node is ready with the new version."""
    checks.check_version_skew(node, node.contents.kubernetes)
    replace(node, tool_program(node, "kubectl"))
    targets, note = services.kubelet_program(node), f"{node.contents.work}/kubelet.done"
    is_due = bool(changes) and node.files.text(note) != f"{changes.upgrade}\n"
    if replace_and_restart(
        node,
        "kubelet",
        targets,
        lambda: _node_health(node),
        settings=wanted_flags(node, changes),
        is_due=is_due,
        timeout=READY_TIMEOUT,
    ):
        if is_due:
            node.files.write(note, f"{changes.upgrade}\n")
        return f"kubelet {node.contents.version} runs, and the node is ready"
    verdict = _node_health(node)
    if verdict.problem:
        raise StepFailed(f"kubelet {node.contents.version} was installed already, but {verdict.problem}")
    return f"kubelet {node.contents.version} was installed already, and the node is ready"


def _node_health(node: Node) -> Verdict:
    """The verdict on the node by its status in the API: it must report the new kubelet, and be ready."""
    try:
        answer = node.api.request("GET", f"/api/v1/nodes/{quote(node.name)}")
    except Unreachable as error:
        return Verdict(str(error), is_known=False)
    if answer.status != 200:
        return Verdict(f"can't read node {node.name} ({answer.reason})", is_known=False)
    status = answer.tree.get("status", {})
    version = status.get("nodeInfo", {}).get("kubeletVersion", "")
    if find_version(version) != node.contents.kubernetes:
        return Verdict(f"node {node.name} still reports kubelet {version or 'without a version'}")
    conditions = {condition.get("type"): condition for condition in status.get("conditions", ())}
    ready = conditions.get("Ready", {})
    if ready.get("status") != "True":
        return Verdict(f"node {node.name} is not ready ({ready.get('message') or 'it reports no reason'})")
    return HEALTHY


def done(node: Node, changes: Changes) -> str:
    """Check that everything is installed and runs, then remove the work directory and all backups, also kubeadm's."""
    targets = services.all_programs(node)
    outdated = find_outdated(node, targets)
    if outdated:
        raise StepFailed(
            f"{', '.join(outdated)} {'differs' if len(outdated) == 1 else 'differ'} from the upgrader image: "
            "a step was skipped, or the host was changed since; the NodeUpgrade has to start again"
        )
    if any(node.files.text(path) != text for path, text in wanted_flags(node, changes).items()):
        raise StepFailed("the kubelet's flags are not those requested: a step was skipped, or they were changed since")
    for name in (services.CONTAINERD, "kubelet"):
        if not (service := services.show(node, name)).active:
            raise StepFailed(f"{name} is {service.state} after the upgrade; repair it, then delete the pod to retry")
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
        raise disk_failure(error, f"can't remove {node.contents.work}") from error
    return f"the node runs Kubernetes {node.contents.version}; the work directory was removed"


def _run(node: Node, program: str, version: str, kubeadm_options: KubeadmOptions, changes: Changes) -> None:
    """Run `kubeadm upgrade`. Raises `StepFailed`; the old files are then restored, unless static pods need the new."""
    arguments = ["upgrade", "node"]
    if kubeadm_options.role == FIRST:
        arguments = ["upgrade", "apply", version, "--yes", *(ALLOW_DISTRIBUTION_VERSION if "-" in version else ())]
    preflight = ",".join(dict.fromkeys((*IGNORED, *kubeadm_options.ignored)))
    options = [f"--ignore-preflight-errors={preflight}"]
    options += [SKIP_COREDNS] if node.control_plane else []
    options += [f"--patches={kubeadm_options.patches}"] if kubeadm_options.patches else []
    result = node.commands.follow(program, *arguments, *options, timeout=KUBEADM_TIMEOUT, say=node.say)
    if result.code:
        restored = " and the old files were restored" if changes.has_files and restore_files(node, changes) else ""
        raise StepFailed(
            f"kubeadm {' '.join(arguments[:2])} exited {result.code}: {_cause(result)}; "
            f"it can be repeated{restored}: fix the cause, then delete the pod to retry"
        )


def _cause(result: Result) -> str:
    """The cause of kubeadm's failure: the failed checks, or else its last lines."""
    errors = [line.strip() for line in result.output.splitlines() if line.strip().startswith("[ERROR ")]
    return "; ".join(errors) or result.last_lines(3)


def _record_backups(node: Node) -> None:
    """Record which backups of manifests and etcd's data exist before kubeadm runs for the first time.

    kubeadm keeps backups for repairs by hand after a failed upgrade, and never removes them.
    """
    if not node.files.is_file(_record_path(node)):
        node.files.make_folder(node.contents.work)
        node.files.write(_record_path(node), json.dumps(_kubeadm_backups(node)))


def _remove_backups(node: Node) -> None:
    """Remove the backups made since `_record_backups`, as the upgrade succeeded. Earlier ones stay."""
    before = node.files.text(_record_path(node))
    if not before:
        return
    for name in _kubeadm_backups(node):
        if name not in json.loads(before):
            node.files.remove_folder(f"{BACKUPS_OF_KUBEADM}/{name}")


def _record_path(node: Node) -> str:
    return f"{node.contents.work}/kubeadm-backups.before"


def _kubeadm_backups(node: Node) -> list[str]:
    return [name for name in node.files.names(BACKUPS_OF_KUBEADM) if name.startswith(BACKUP_PREFIX)]
