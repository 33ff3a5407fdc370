"""Replacing programs of the host, with a way back.

A note says that the work on a service has begun; then all that will be replaced gets a backup; then the first program
is touched. The note goes away when the service runs with the new programs, or with the old ones again. So whoever is
killed in between finds on the next run, from files alone, what is left to do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from . import services
from .failures import NotCopied, StepFailed
from .node import Node, on_disk
from .services import WELL, Verdict

PROGRAM = 0o755


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
            _back_up(node, path)
        for path in outdated:
            name = targets[path]
            source = node.files.place(node.contents.copied(name))
            _folder(node, path)
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
    timeout: float = services.STARTING,
) -> bool:
    """Bring the programs of a service to the host and restart it; when it does not come up, bring the old ones back.

    False when there was nothing to do. `healthy` judges the running service, which has `timeout` seconds to be well.
    Raises `StepFailed` when the service did not come up, saying what runs now.
    """
    note = f"{node.contents.work}/{service}.begun"
    begun = node.files.is_file(note)
    if not begun:
        if not find_outdated(node, targets):
            return False
        if not (found := services.show(node, service)).active:
            raise StepFailed(
                f"{service} is {found.state} already before it is upgraded; repair it, then delete the pod to try again"
            )
    try:
        _folder(node, note)
        node.files.write(note, "\n".join(targets) + "\n")
    except OSError as error:
        raise on_disk(error, f"the upgrade of {service} could not be begun") from error
    replace(node, targets)
    verdict = services.restart(node, service, healthy, timeout=timeout)
    if verdict.missing and not verdict.sure:
        raise StepFailed(
            f"the new {service} runs, but whether it is well can't be told: {verdict.missing}; "
            "once that is repaired, delete the pod to try again"
        )
    if verdict.missing:
        said = services.journal(node, service)
        outcome = _restore(node, service, targets)
        node.files.remove(note)
        said = f" ({said})" if said else ""
        raise StepFailed(f"the new {service} does not come up: {verdict.missing}{said}; {outcome}")
    node.files.remove(note)
    return True


def _restore(node: Node, service: str, targets: Mapping[str, str]) -> str:
    """Bring the backups of a service's programs back and restart it; returns what came of it."""
    try:
        for path in targets:
            backup = node.contents.backup(path)
            if node.files.is_file(backup):
                source = node.files.place(backup)
                node.files.put(
                    source, path, expected=node.files.checksum(backup), mode=source.stat().st_mode, share=True
                )
    except OSError as error:
        raise on_disk(error, f"the new {service} does not come up, and the old could not be brought back") from error
    if missing := services.restart(node, service, lambda: WELL).missing:
        return f"the old one was brought back and does not come up either ({missing}): repair the node by hand"
    return "the old one was brought back and runs; remove the cause, then delete the pod to try again"


def _back_up(node: Node, path: str) -> None:
    """Keep what lies at a path, unless it is kept already or there is nothing."""
    backup = node.contents.backup(path)
    found = node.files.checksum(path)
    if found and found != node.files.checksum(backup):
        source = node.files.place(path)
        _folder(node, backup)
        node.files.put(source, backup, expected=found, mode=source.stat().st_mode, share=True)


def _folder(node: Node, path: str) -> None:
    node.files.make_folder(path.rpartition("/")[0])
