"""Files and kubelet flags that change with a node's upgrade, besides programs.

They come with the pod, in a Secret. Files are written before kubeadm renders static pods that mount them; a static pod
that mounts one, and whose manifest kubeadm does not change, is restarted. The step that upgrades the kubelet restarts
it, since it reads its flags and some of the files when it starts.

A file in the work directory records the previous state before the first file changes. If a static pod does not come up
with the new files, the old ones are restored.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .files import Files
from .host import StepFailed
from .node import Node, disk_failure
from .services import back_up, make_folder_of
from .static_pods import (
    MANIFESTS,
    annotated,
    is_manifest,
    manifest_paths,
    manifests,
    mirror,
    mounted,
    not_restarted,
    text_sum,
    without_annotation,
)

FILE = "changes.json"
"""The name of the file with the changes."""
MAX_BYTES = 1_000_000
"""The maximum size of that file, in bytes."""
FLAGS = "/var/lib/kubelet/kubeadm-flags.env"
START_TIMEOUT = 300
"""Seconds within which a static pod must come up with a new manifest; kubeadm allows the same."""
_VARIABLE = "KUBELET_KUBEADM_ARGS="
_PERMISSIONS = re.compile(r"0?[0-7]{3}")
_FLAG = re.compile(r"[a-z0-9][a-z0-9-]*")
_VALUE = re.compile(r"[!#%&()*+,./:;<=>?@\[\]^_{|}~A-Za-z0-9-]*")
"""Values that need no quotes in an environment file of systemd."""


@dataclass(frozen=True)
class NewFile:
    """A file to write to the node."""

    path: str
    content: bytes
    mode: int
    owner: str
    """`user:group` of the host, as names or numbers."""


@dataclass(frozen=True)
class Changes:
    """The files and kubelet flags to change."""

    files: tuple[NewFile, ...] = ()
    removed: tuple[str, ...] = ()
    """Paths of files to remove."""
    flags: tuple[tuple[str, str], ...] = ()
    """Names and values of kubelet flags to set."""
    removed_flags: tuple[str, ...] = ()
    upgrade: str = ""
    """The identity of the upgrade."""

    @property
    def has_files(self) -> bool:
        """True if files are written or removed."""
        return bool(self.files or self.removed)

    def __bool__(self) -> bool:
        return bool(self.has_files or self.flags or self.removed_flags)


def read_changes(folder: Path | None, upgrade: str = "") -> Changes:
    """The changes in a directory of the container; none without a directory. Raises `StepFailed`."""
    if folder is None:
        return Changes(upgrade=upgrade)
    path = folder / FILE
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise ValueError(f"more than {MAX_BYTES} bytes")
        return _decoded(json.loads(content), upgrade)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise StepFailed(
            f"can't read the changes to files and kubelet flags ({type(error).__name__}: {error}); "
            "nothing was changed; correct spec.bootstrapChanges of the NodeUpgrade"
        ) from error


def _decoded(tree: Any, upgrade: str) -> Changes:
    return Changes(
        tuple(
            NewFile(str(entry["path"]), _content(entry), _mode(entry), str(entry.get("owner") or "root:root"))
            for entry in tree.get("files") or ()
        ),
        tuple(map(str, tree.get("removedFiles") or ())),
        tuple((str(flag["name"]), str(flag["value"])) for flag in tree.get("kubeletArgs") or ()),
        tuple(map(str, tree.get("removedKubeletArgs") or ())),
        upgrade,
    )


def _content(file: Mapping[str, Any]) -> bytes:
    try:
        return base64.b64decode(str(file.get("content") or ""), validate=True)
    except binascii.Error as error:
        raise ValueError(f"content of {file['path']}: {error}") from None


def _mode(file: Mapping[str, Any]) -> int:
    text = str(file.get("permissions") or "0644")
    if not _PERMISSIONS.fullmatch(text):
        raise ValueError(f"permissions of {file['path']}: found {text!r}, allowed: three octal digits, like 0644")
    return int(text, 8)


def check_changes(node: Node, changes: Changes) -> None:
    """Check, before anything changes, that all changes can be made. Raises `StepFailed`."""
    for path in (*(file.path for file in changes.files), *changes.removed):
        parts = path.split("/")[1:]
        if not path.startswith("/") or "\0" in path or any(part in ("", ".", "..") for part in parts):
            raise StepFailed(f"files: found path {path!r}, allowed: absolute paths without '.' and '..'")
        if link := node.files.first_unsafe_part(path):
            raise StepFailed(f"files: can't write {path}: {link} is a link or of the wrong type; nothing was changed")
    for file in changes.files:
        _owner(node.files, file)
    for name, value in (*changes.flags, *((name, "") for name in changes.removed_flags)):
        if not _FLAG.fullmatch(name) or not _VALUE.fullmatch(value):
            raise StepFailed(f"kubelet flags: found {name!r} with value {value!r}, allowed: one word without quotes")
    if changes.flags or changes.removed_flags:
        wanted_flags(node, changes)


def wanted_flags(node: Node, changes: Changes) -> dict[str, str]:
    """Path -> text of the file in which kubeadm keeps the kubelet's flags; empty if no flag changes.

    Flags that are not named stay. Raises `StepFailed` if the file does not have kubeadm's format.
    """
    if not changes.flags and not changes.removed_flags:
        return {}
    text = node.files.text(FLAGS)
    match = re.fullmatch(rf'{_VARIABLE}"?([^"\\\n]*)"?\n?', text)
    if match is None:
        raise StepFailed(
            f'{FLAGS} does not have kubeadm\'s format, one line {_VARIABLE}"--name=value ..."; it was not changed'
        )
    present = match[1].split()
    named = {name for name, _ in changes.flags} | set(changes.removed_flags)
    replaced = [flag for flag in present if flag.removeprefix("--").partition("=")[0] in named]
    wanted = [f"--{name}={value}" for name, value in changes.flags]
    flags = present if replaced == wanted else [flag for flag in present if flag not in replaced] + wanted
    return {FLAGS: f'{_VARIABLE}"{" ".join(flags)}"\n'}


def write_files(node: Node, changes: Changes) -> None:
    """Record the present state, then write the new files; static pod manifests last, as they may mount other files.

    Files to remove that no static pod mounts are removed now, so that kubeadm does not read them.
    """
    if not changes.has_files:
        return
    try:
        if _recorded_manifests(node, changes) is None:
            _record_manifests(node, changes)
        for file in sorted(changes.files, key=lambda file: (is_manifest(file.path), file.path)):
            owner = _owner(node.files, file)
            if node.files.is_identical(file.path, file.content, mode=file.mode, owner=owner):
                continue
            back_up(node, file.path, share=False)
            make_folder_of(node, file.path)
            node.files.place_content(file.path, file.content, mode=file.mode, owner=owner)
            node.say(f"wrote {file.path}")
        used = [path for text in manifests(node).values() for path in mounted(text, changes.removed)]
        _remove(node, [path for path in changes.removed if path not in used])
    except OSError as error:
        raise disk_failure(error, "can't change the files of the node") from error


def restart_static_pods(node: Node, changes: Changes) -> None:
    """Restart the static pods that mount a changed file, and whose manifest did not change.

    Raises `StepFailed` if one does not come up; then the old files have been restored.
    """
    before = _recorded_manifests(node, changes)
    if before is None:
        return
    paths, due = [file.path for file in changes.files], []
    try:
        _remove(node, changes.removed)
        for name, text in manifests(node).items():
            path = f"{MANIFESTS}/{name}"
            is_new = text_sum(text) != before.get(name, {}).get("checksum")
            if not is_new and mounted(text, paths):
                content = annotated(path, text, changes.upgrade).encode()
                node.files.place_content(path, content, mode=node.files.mode(path))
                node.say(f"restarting the static pod of {path}: a file that it mounts changed")
                due.append(name)
            elif is_new and path in paths:
                due.append(name)
    except OSError as error:
        raise disk_failure(error, "can't restart static pods") from error
    missing = node.until(lambda: not_restarted(node, due, before), timeout=START_TIMEOUT, every=2)
    if missing:
        restore_files(node, changes)
        raise StepFailed(
            f"{missing} within {START_TIMEOUT} s of the change of {', '.join(paths)}; the old files were restored; "
            "correct the change"
        )


def restore_files(node: Node, changes: Changes) -> bool:
    """Restore the old files; False if kubeadm has rendered static pods that may need the new ones."""
    before = _recorded_manifests(node, changes)
    if before is None:
        return True
    own = [file.path for file in changes.files]
    present = {
        name: without_annotation(text) for name, text in manifests(node).items() if f"{MANIFESTS}/{name}" not in own
    }
    if any(text_sum(text) != before.get(name, {}).get("plain") for name, text in present.items()):
        return False
    try:
        for path in (*own, *changes.removed):
            backup = node.contents.backup(path)
            if node.files.is_file(backup):
                source = node.files.place(backup)
                expected, mode = node.files.checksum(backup), source.stat().st_mode
                node.files.put(source, path, expected=expected, mode=mode)
            elif path in own:
                node.files.remove(path)
        for name, text in present.items():
            if text != node.files.text(path := f"{MANIFESTS}/{name}"):
                node.files.place_content(path, text.encode(), mode=node.files.mode(path))
        node.files.remove(_record_path(node))
    except OSError as error:
        raise disk_failure(error, "can't restore the old files") from error
    return True


def sweep_changes(node: Node, changes: Changes) -> None:
    """Remove the leftovers of interrupted changes."""
    for path in (FLAGS, *(file.path for file in changes.files), *manifest_paths(node)):
        node.files.sweep(path)


def _record_path(node: Node) -> str:
    return f"{node.contents.work}/files.before"


def _record_manifests(node: Node, changes: Changes) -> None:
    """Record the checksums of static pod manifests, with and without our annotation, and of what the kubelet runs."""
    recorded = {
        name: {
            "checksum": text_sum(text),
            "plain": text_sum(without_annotation(text)),
            "hash": mirror(node, text)[1],
        }
        for name, text in manifests(node).items()
    }
    make_folder_of(node, _record_path(node))
    node.files.write(_record_path(node), json.dumps({"upgrade": changes.upgrade, "manifests": recorded}))


def _recorded_manifests(node: Node, changes: Changes) -> dict[str, dict[str, str]] | None:
    """The recorded manifests, by name; None if this upgrade has not recorded any yet."""
    text = node.files.text(_record_path(node))
    record = json.loads(text) if text else {}
    return record["manifests"] if record.get("upgrade") == changes.upgrade and text else None


def _remove(node: Node, paths: Sequence[str]) -> None:
    for path in paths:
        if node.files.is_file(path):
            back_up(node, path, share=False)
            node.files.remove(path)
            node.say(f"removed {path}")


def _owner(files: Files, file: NewFile) -> tuple[int, int]:
    """The numeric user and group ids of a file's owner, by the host's passwd and group files. Raises `StepFailed`."""
    user, _, group = file.owner.partition(":")
    ids = []
    for name, table in ((user, "/etc/passwd"), (group or user, "/etc/group")):
        entries = (line.split(":") for line in files.text(table).splitlines())
        number = name if name.isdecimal() else next((row[2] for row in entries if row[0] == name and len(row) > 2), "")
        if name == "root":
            number = "0"
        if not number.isdecimal():
            raise StepFailed(
                f"files: the owner of {file.path} is {file.owner}, but the node has no {name!r} in {table}"
            )
        ids.append(int(number))
    return ids[0], ids[1]
