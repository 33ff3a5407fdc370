"""Programs of the host, their systemd services, and their replacement with a rollback.

Nodes have the layout of image-builder. A note records that the work on a service started; then everything that will be
replaced is backed up; then the programs are replaced. The note is removed once the service runs with the new programs,
or with the old ones again. So after an interruption the next run finds, from files alone, what is left to do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from .host import NotCopied, StepFailed
from .node import Node, disk_failure

CONTAINERD, CNI_PLUGINS, KUBERNETES = "containerd", "cni-plugins", "kubernetes"
CNI_FOLDER = "/opt/cni/bin"
FOLDERS = ("/usr/bin", "/usr/local/bin")
"""Directories of Kubernetes' programs: those of packages, and of unpacked archives."""
PROGRAM = 0o755
START_TIMEOUT = 60
"""Seconds within which a service must come up, even on slow disks."""
SETTLE_SECONDS = 1
"""Seconds between the start of a service and its first check, as most failing services exit at once."""
MAX_RESTARTS = 3
"""The number of restarts by systemd after which a service counts as failed."""


@dataclass(frozen=True)
class Service:
    """The state of a service, as systemd reports it."""

    name: str
    loaded: bool
    program: str
    """Path of the program that it starts; empty if it starts none."""
    active: bool
    state: str
    restarts: int
    """Number of restarts by systemd since it was last asked to start it."""


def show(node: Node, name: str) -> Service:
    """The state of a service, as systemd reports it. Raises `StepFailed` if systemd does not answer."""
    properties = "LoadState,ExecStart,ActiveState,SubState,NRestarts"
    result = node.commands.run("systemctl", "show", f"{name}.service", f"--property={properties}")
    if result.code:
        raise StepFailed(
            f"can't query {name} from systemd on the host (systemctl show exited {result.code}: "
            f"{result.last_lines()}); nodes need the layout of image-builder, in which systemd runs {name}"
        )
    values = dict(line.split("=", 1) for line in result.output.splitlines() if "=" in line)
    program = re.search(r"path=(\S+)", values.get("ExecStart", ""))
    restarts = values.get("NRestarts", "")
    return Service(
        name,
        values.get("LoadState") == "loaded",
        program[1] if program else "",
        values.get("ActiveState") == "active" and values.get("SubState") == "running",
        f"{values.get('ActiveState', 'unknown')} ({values.get('SubState', 'unknown')})",
        int(restarts) if restarts.isdecimal() else 0,
    )


def program_of(node: Node, name: str) -> str:
    """Path of the program that a service starts. Raises `StepFailed` if the host has another layout."""
    service = show(node, name)
    if not service.loaded or not service.program:
        raise StepFailed(
            f"the host has no service {name}.service: nodes need the layout of image-builder, "
            f"in which systemd runs {name}; nothing was changed"
        )
    if not node.files.is_file(service.program):
        raise StepFailed(f"{name}.service starts {service.program}, which does not exist; repair the service first")
    return service.program


@dataclass(frozen=True)
class Verdict:
    """The result of a health check."""

    problem: str = ""
    """The problem of the service; empty if it is healthy."""
    is_known: bool = True
    """False if the health is unknown: then the new programs stay."""


HEALTHY = Verdict()


def restart(node: Node, name: str, healthy: Callable[[], Verdict], *, timeout: float = START_TIMEOUT) -> Verdict:
    """Restart a service, and wait until it keeps running and `healthy` passes, for at most `timeout` seconds."""
    node.commands.run("systemctl", "reset-failed", f"{name}.service")  # also sets the count of restarts to 0
    result = node.commands.run("systemctl", "restart", f"{name}.service", timeout=2 * START_TIMEOUT)
    if result.code:
        return Verdict(f"systemctl restart {name} exited {result.code}: {result.last_lines()}")
    node.clock.wait(SETTLE_SECONDS)
    end = node.clock.now() + timeout
    while True:
        service = show(node, name)
        if service.restarts >= MAX_RESTARTS:
            return Verdict(f"systemd restarted it {service.restarts} times, and it exited each time")
        verdict = healthy() if service.active else Verdict(f"it is {service.state}")
        if not verdict.problem or node.clock.now() >= end:
            return verdict
        node.clock.wait(1)


def journal(node: Node, name: str) -> str:
    """The last lines of a service's journal, joined into one; empty if they can't be read."""
    result = node.commands.run("journalctl", f"--unit={name}", "--lines=3", "--output=cat", "--no-pager", timeout=10)
    return "" if result.code else result.last_lines(3)


def containerd_programs(node: Node) -> Mapping[str, str]:
    """Path on the host -> file of the image, for the programs beside the containerd that systemd starts."""
    folder = program_of(node, CONTAINERD).rpartition("/")[0]
    return {f"{folder}/{name}": f"{CONTAINERD}/{name}" for name in node.contents.programs(CONTAINERD)}


def cni_plugins_programs(node: Node) -> Mapping[str, str]:
    """Path on the host -> file of the image, for the CNI plugins."""
    return {f"{CNI_FOLDER}/{name}": f"{CNI_PLUGINS}/{name}" for name in node.contents.programs(CNI_PLUGINS)}


def kubelet_program(node: Node) -> Mapping[str, str]:
    """Path on the host -> file of the image, for the kubelet that systemd starts."""
    return {program_of(node, "kubelet"): f"{KUBERNETES}/kubelet"}


def tool_program(node: Node, name: str) -> Mapping[str, str]:
    """Path on the host -> file of the image, for kubeadm or kubectl; a missing one is put beside the kubelet."""
    beside = program_of(node, "kubelet").rpartition("/")[0]
    folders = dict.fromkeys((beside, *FOLDERS))
    folder = next((folder for folder in folders if node.files.is_file(f"{folder}/{name}")), beside)
    return {f"{folder}/{name}": f"{KUBERNETES}/{name}"}


def all_programs(node: Node) -> Mapping[str, str]:
    """All programs that are upgraded. Raises `StepFailed` if the host has another layout."""
    return {
        **containerd_programs(node),
        **cni_plugins_programs(node),
        **tool_program(node, "kubeadm"),
        **kubelet_program(node),
        **tool_program(node, "kubectl"),
    }


def replace(node: Node, targets: Mapping[str, str]) -> list[str]:
    """Install programs on the host, each atomically. `targets`: path on the host -> `component/program`.

    Backs up what it replaces. Returns the paths that were replaced; up-to-date ones are not touched. Raises `NotCopied`
    if the work directory lacks one, `StepFailed`.
    """
    outdated = find_outdated(node, targets)
    for path in outdated:
        if node.files.checksum(node.contents.copied(targets[path])) != node.contents.files[targets[path]].checksum:
            raise NotCopied(
                f"{node.contents.copied(targets[path])} is missing or differs from the image; "
                "the step components-copier has to run again"
            )
    try:
        for path in outdated:
            back_up(node, path)
        for path in outdated:
            name = targets[path]
            source = node.files.place(node.contents.copied(name))
            make_folder_of(node, path)
            node.files.put(source, path, expected=node.contents.files[name].checksum, mode=PROGRAM, share=True)
            node.say(f"replaced {path}")
    except OSError as error:
        raise disk_failure(error, "can't replace the programs of the host") from error
    return outdated


def find_outdated(node: Node, targets: Mapping[str, str]) -> list[str]:
    """The paths whose files differ from the image."""
    return [path for path, name in targets.items() if node.files.checksum(path) != node.contents.files[name].checksum]


def replace_and_restart(
    node: Node,
    service: str,
    targets: Mapping[str, str],
    healthy: Callable[[], Verdict],
    *,
    settings: Mapping[str, str] | None = None,
    is_due: bool = False,
    timeout: float = START_TIMEOUT,
) -> bool:
    """Install programs and settings (path -> text) of a service and restart it; restore the old ones if it does not
    come up.

    Returns False if there was nothing to do; with `is_due` it always restarts. `healthy` checks the running service,
    which must pass within `timeout` seconds. Raises `StepFailed` if it does not come up, with what runs now.
    """
    note = f"{node.contents.work}/{service}.begun"
    settings = settings or {}
    changed = [path for path, text in settings.items() if node.files.text(path) != text]
    if not node.files.is_file(note):
        if not is_due and not changed and not find_outdated(node, targets):
            return False
        if not (before := show(node, service)).active:
            raise StepFailed(f"{service} is {before.state} before its upgrade; repair it, then delete the pod to retry")
    try:
        make_folder_of(node, note)
        node.files.write(note, "\n".join((*targets, *settings)) + "\n")
        for path in changed:
            back_up(node, path, share=False)
            node.files.place_content(path, settings[path].encode(), mode=node.files.mode(path))
            node.say(f"changed {path}")
    except OSError as error:
        raise disk_failure(error, f"can't start the upgrade of {service}") from error
    replace(node, targets)
    verdict = restart(node, service, healthy, timeout=timeout)
    if verdict.problem and not verdict.is_known:
        raise StepFailed(
            f"the new {service} runs, but its health is unknown: {verdict.problem}; "
            "repair that, then delete the pod to retry"
        )
    if verdict.problem:
        log = journal(node, service)
        outcome = _restore(node, service, (*targets, *settings))
        node.files.remove(note)
        log = f" ({log})" if log else ""
        raise StepFailed(f"the new {service} does not come up: {verdict.problem}{log}; {outcome}")
    node.files.remove(note)
    return True


def _restore(node: Node, service: str, paths: Sequence[str]) -> str:
    """Restore the backups of a service's files and restart it; returns the result as a message."""
    try:
        for path in paths:
            backup = node.contents.backup(path)
            if node.files.is_file(backup):
                source = node.files.place(backup)
                node.files.put(
                    source, path, expected=node.files.checksum(backup), mode=source.stat().st_mode, share=True
                )
    except OSError as error:
        raise disk_failure(error, f"the new {service} does not come up, and the old one can't be restored") from error
    if problem := restart(node, service, lambda: HEALTHY).problem:
        return f"the old one was restored, but does not come up either ({problem}): repair the node by hand"
    return "the old one was restored and runs; fix the cause, then delete the pod to retry"


def back_up(node: Node, path: str, *, share: bool = True) -> None:
    """Back up the file at a path, unless it is backed up already or does not exist.

    With `share`, for a file that nobody writes to, the backup may be a hard link.
    """
    backup = node.contents.backup(path)
    checksum = node.files.checksum(path)
    if checksum and checksum != node.files.checksum(backup):
        source = node.files.place(path)
        make_folder_of(node, backup)
        node.files.put(source, backup, expected=checksum, mode=source.stat().st_mode, share=share)


def make_folder_of(node: Node, path: str) -> None:
    """Create the directory of a path."""
    node.files.make_folder(path.rpartition("/")[0])
