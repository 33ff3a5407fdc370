"""Programs of the host, the services that systemd runs of them, and how they are replaced with a way back.

Nodes have the layout of image-builder. A note says that the work on a service has begun; then all that will be replaced
gets a backup; then the first program is touched. The note goes away when the service runs with the new programs, or
with the old ones again. So whoever is killed in between finds on the next run, from files alone, what is left to do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from .host import NotCopied, StepFailed
from .node import Node, on_disk

CONTAINERD, CNI_PLUGINS, KUBERNETES = "containerd", "cni-plugins", "kubernetes"
CNI_FOLDER = "/opt/cni/bin"
FOLDERS = ("/usr/bin", "/usr/local/bin")
"""Directories of Kubernetes' programs: of packages, and of unpacked archives."""
PROGRAM = 0o755
STARTING = 60
"""Seconds within which a service comes up, on slow disks too."""
STEADY = 1
"""Seconds for which a service must have run since its start before it is asked how it is; what fails, fails at once."""
RESTARTS = 3
"""As often may systemd try to start it."""


@dataclass(frozen=True)
class Service:
    """State of a service, as systemd reports it."""

    name: str
    loaded: bool
    program: str
    """Path of the program that it starts; empty when it starts none."""
    active: bool
    state: str
    restarts: int
    """Number of restarts by systemd since it was last asked to start it."""


def show(node: Node, name: str) -> Service:
    """State of a service, as systemd reports it. Raises `StepFailed` when there is no systemd to ask."""
    properties = "LoadState,ExecStart,ActiveState,SubState,NRestarts"
    result = node.commands.run("systemctl", "show", f"{name}.service", f"--property={properties}")
    if result.code:
        raise StepFailed(
            f"systemd can't be asked about {name} on the host (systemctl show ended with {result.code}: "
            f"{result.last_lines()}); nodes need the layout of image-builder, with {name} run by systemd"
        )
    said = dict(line.split("=", 1) for line in result.output.splitlines() if "=" in line)
    program = re.search(r"path=(\S+)", said.get("ExecStart", ""))
    restarts = said.get("NRestarts", "")
    return Service(
        name,
        said.get("LoadState") == "loaded",
        program[1] if program else "",
        said.get("ActiveState") == "active" and said.get("SubState") == "running",
        f"{said.get('ActiveState', 'unknown')} ({said.get('SubState', 'unknown')})",
        int(restarts) if restarts.isdecimal() else 0,
    )


def program_of(node: Node, name: str) -> str:
    """Path of the program that a service starts. Raises `StepFailed` where the host has another layout."""
    service = show(node, name)
    if not service.loaded or not service.program:
        raise StepFailed(
            f"the host has no service {name}.service: nodes need the layout of image-builder, "
            f"where systemd runs {name}; nothing was changed"
        )
    if not node.files.is_file(service.program):
        raise StepFailed(f"{name}.service starts {service.program}, which is not on the host; repair the service first")
    return service.program


@dataclass(frozen=True)
class Verdict:
    """True if a service is well."""

    missing: str = ""
    """Problem of the service; empty if it is well."""
    sure: bool = True
    """False when that could not be found out, so that nothing speaks against the service either."""


WELL = Verdict()


def restart(node: Node, name: str, healthy: Callable[[], Verdict], *, timeout: float = STARTING) -> Verdict:
    """Restart a service; it is well when it runs steadily and `healthy` finds it so, within `timeout` seconds."""
    node.commands.run("systemctl", "reset-failed", f"{name}.service")  # also sets the count of restarts to 0
    result = node.commands.run("systemctl", "restart", f"{name}.service", timeout=2 * STARTING)
    if result.code:
        return Verdict(f"systemctl restart {name} ended with {result.code}: {result.last_lines()}")
    node.clock.wait(STEADY)
    end = node.clock.now() + timeout
    while True:
        service = show(node, name)
        if service.restarts >= RESTARTS:
            return Verdict(f"systemd started it {service.restarts} times more, and each time it ended")
        verdict = healthy() if service.active else Verdict(f"it is {service.state}")
        if not verdict.missing or node.clock.now() >= end:
            return verdict
        node.clock.wait(1)


def journal(node: Node, name: str) -> str:
    """The last lines that a service said, in one line; empty when they can't be had."""
    result = node.commands.run("journalctl", f"--unit={name}", "--lines=3", "--output=cat", "--no-pager", timeout=10)
    return "" if result.code else result.last_lines(3)


def containerd_programs(node: Node) -> Mapping[str, str]:
    """Path on the host -> file of the image, for what lies beside the containerd that systemd starts."""
    folder = program_of(node, CONTAINERD).rpartition("/")[0]
    return {f"{folder}/{name}": f"{CONTAINERD}/{name}" for name in node.contents.programs(CONTAINERD)}


def cni_plugins_programs(node: Node) -> Mapping[str, str]:
    """Path on the host -> file of the image, for the CNI plugins."""
    return {f"{CNI_FOLDER}/{name}": f"{CNI_PLUGINS}/{name}" for name in node.contents.programs(CNI_PLUGINS)}


def kubelet_program(node: Node) -> Mapping[str, str]:
    """Path on the host -> file of the image, for the kubelet that systemd starts."""
    return {program_of(node, "kubelet"): f"{KUBERNETES}/kubelet"}


def tool_program(node: Node, name: str) -> Mapping[str, str]:
    """Path on the host -> file of the image, for kubeadm or kubectl; one that is not there comes beside the kubelet."""
    beside = program_of(node, "kubelet").rpartition("/")[0]
    folders = dict.fromkeys((beside, *FOLDERS))
    folder = next((folder for folder in folders if node.files.is_file(f"{folder}/{name}")), beside)
    return {f"{folder}/{name}": f"{KUBERNETES}/{name}"}


def all_programs(node: Node) -> Mapping[str, str]:
    """All that is upgraded. Raises `StepFailed` where the host has another layout."""
    return {
        **containerd_programs(node),
        **cni_plugins_programs(node),
        **tool_program(node, "kubeadm"),
        **kubelet_program(node),
        **tool_program(node, "kubectl"),
    }


def replace(node: Node, targets: Mapping[str, str]) -> list[str]:
    """Bring programs to the host, each whole or not at all. `targets`: path on the host -> `component/program`.

    What is replaced has a backup before. Returns the paths that were replaced; those that are right stay untouched.
    Raises `NotCopied` when the work folder lacks one, `StepFailed`.
    """
    outdated = find_outdated(node, targets)
    for path in outdated:
        if node.files.checksum(node.contents.copied(targets[path])) != node.contents.files[targets[path]].checksum:
            raise NotCopied(
                f"{node.contents.copied(targets[path])} is not on the host as the image carries it; "
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
        raise on_disk(error, "the programs of the host could not be replaced") from error
    return outdated


def find_outdated(node: Node, targets: Mapping[str, str]) -> list[str]:
    """The paths that do not hold what the image carries."""
    return [path for path, name in targets.items() if node.files.checksum(path) != node.contents.files[name].checksum]


def replace_and_restart(
    node: Node,
    service: str,
    targets: Mapping[str, str],
    healthy: Callable[[], Verdict],
    *,
    settings: Mapping[str, str] | None = None,
    is_due: bool = False,
    timeout: float = STARTING,
) -> bool:
    """Bring programs and settings (path -> text) of a service to the host and restart it; when it does not come up,
    bring the old ones back.

    False when there was nothing to do; with `is_due` it is restarted in any case. `healthy` judges the running service,
    which has `timeout` seconds to be well. Raises `StepFailed` when it did not come up, saying what runs now.
    """
    note = f"{node.contents.work}/{service}.begun"
    settings = settings or {}
    changed = [path for path, text in settings.items() if node.files.text(path) != text]
    if not node.files.is_file(note):
        if not is_due and not changed and not find_outdated(node, targets):
            return False
        if not (found := show(node, service)).active:
            raise StepFailed(
                f"{service} is {found.state} already before it is upgraded; repair it, then delete the pod to try again"
            )
    try:
        make_folder_of(node, note)
        node.files.write(note, "\n".join((*targets, *settings)) + "\n")
        for path in changed:
            back_up(node, path, share=False)
            node.files.place_content(path, settings[path].encode(), mode=node.files.mode(path))
            node.say(f"changed {path}")
    except OSError as error:
        raise on_disk(error, f"the upgrade of {service} could not be begun") from error
    replace(node, targets)
    verdict = restart(node, service, healthy, timeout=timeout)
    if verdict.missing and not verdict.sure:
        raise StepFailed(
            f"the new {service} runs, but whether it is well can't be told: {verdict.missing}; "
            "once that is repaired, delete the pod to try again"
        )
    if verdict.missing:
        said = journal(node, service)
        outcome = _restore(node, service, (*targets, *settings))
        node.files.remove(note)
        said = f" ({said})" if said else ""
        raise StepFailed(f"the new {service} does not come up: {verdict.missing}{said}; {outcome}")
    node.files.remove(note)
    return True


def _restore(node: Node, service: str, paths: Sequence[str]) -> str:
    """Bring the backups of what a service is made of back and restart it; returns what came of it."""
    try:
        for path in paths:
            backup = node.contents.backup(path)
            if node.files.is_file(backup):
                source = node.files.place(backup)
                node.files.put(
                    source, path, expected=node.files.checksum(backup), mode=source.stat().st_mode, share=True
                )
    except OSError as error:
        raise on_disk(error, f"the new {service} does not come up, and the old could not be brought back") from error
    if missing := restart(node, service, lambda: WELL).missing:
        return f"the old one was brought back and does not come up either ({missing}): repair the node by hand"
    return "the old one was brought back and runs; remove the cause, then delete the pod to try again"


def back_up(node: Node, path: str, *, share: bool = True) -> None:
    """Keep what lies at a path, unless it is kept already or there is nothing.

    With `share`, for what nobody writes to, the backup may be the same file.
    """
    backup = node.contents.backup(path)
    found = node.files.checksum(path)
    if found and found != node.files.checksum(backup):
        source = node.files.place(path)
        make_folder_of(node, backup)
        node.files.put(source, backup, expected=found, mode=source.stat().st_mode, share=share)


def make_folder_of(node: Node, path: str) -> None:
    """Make the folder in which a path lies."""
    node.files.make_folder(path.rpartition("/")[0])
