"""Checks of the etcd of a control plane node, before kubeadm starts one of the next minor version on its data.

etcd 3.7 has none of the flags that begin with experimental: it does not start with one, and ignores one that is set by
an environment variable or in a configuration file. It panics at requests of etcd 3.5 in its log, which 3.6 still reads.
Requests before the last snapshot of the log are not read again.
"""

from __future__ import annotations

import contextlib
import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from .contents import find_version
from .host import StepFailed
from .node import Node
from .static_pods import MANIFESTS

MANIFEST = f"{MANIFESTS}/etcd.yaml"
FIRST_WITHOUT = (3, 7)
"""The first version of etcd without these flags, and that can't read requests of 3.5."""
FIRST_KUBERNETES = 37
"""The first minor version of Kubernetes whose kubeadm starts such an etcd, unless its version is set."""
SNAPSHOT_COUNT = 10_000
"""Requests after which etcd 3.6 takes a snapshot of its log, unless its flags say otherwise."""
_FLAG = re.compile(r"--(experimental-[a-z0-9-]+)")
_VARIABLE = re.compile(r"\bETCD_(EXPERIMENTAL_[A-Z0-9_]+)\b")
_SETTING = re.compile(r"(?m)^\s*[\"']?(experimental-[a-z0-9-]+)[\"']?\s*:")
_METHODS = frozenset({b"PUT", b"POST", b"DELETE", b"GET", b"QGET", b"SYNC"})
_FRAME = struct.Struct("<q")
_LARGEST = 64 * 1024 * 1024
"""Bytes of the largest record that is read; etcd's requests have 1.5 MiB."""
_ENTRY, _SNAPSHOT = 2, 5
"""Types of records of the log."""


def check_etcd(node: Node, wanted: str) -> None:
    """Check the settings and the log of etcd; `wanted` is the version to come, empty for that of kubeadm."""
    manifest = node.files.text(MANIFEST)
    if not manifest or not _is_crossed(node, manifest, wanted):
        return
    check_settings(node, manifest)
    log, setting = _log(node, manifest)
    names = [name for name in node.files.names(log) if name.endswith(".wal")] if log else []
    if not names:
        where = f"the log of etcd is not in {log}" if log else "nothing says where the log of etcd is"
        raise StepFailed(
            f"{where}, so that nobody can tell whether etcd 3.7 starts with it: nothing was changed; {setting} sets "
            "the folder: mount it in the pod under the path that it has on the node, then delete the pod to retry"
        )
    index = last_old_request([node.files.place(f"{log}/{name}") for name in names])
    if index:
        raise StepFailed(
            f"the log of etcd in {log} has requests of etcd 3.5 (the last at index {index}) after its last snapshot, "
            "and etcd 3.7 does not start with them: nothing was changed; wait until etcd 3.6 has taken a snapshot of "
            f"its log, which it does after {SNAPSHOT_COUNT} requests (flag --snapshot-count), then delete the pod to "
            "retry"
        )


def check_settings(node: Node, manifest: str) -> None:
    """Check that no setting of the static pod begins with experimental."""
    if flags := sorted(set(_FLAG.findall(manifest))):
        raise StepFailed(
            f"{MANIFEST} has flag --{flags[0]}, and etcd 3.7 does not start with it: nothing was changed; "
            f"remove it from etcd.local.extraArgs, or set what replaces it ({_successor(flags[0])})"
        )
    if variables := sorted(set(_VARIABLE.findall(manifest))):
        name = variables[0].lower().replace("_", "-")
        raise StepFailed(
            f"{MANIFEST} sets ETCD_{variables[0]}, which etcd 3.7 ignores, so that what it sets is off: nothing was "
            f"changed; remove it from etcd.local.extraEnvs, or set what replaces it ({_successor(name)})"
        )
    file = _option(manifest, "config-file")
    if file and (settings := sorted(set(_SETTING.findall(node.files.text(file))))):
        raise StepFailed(
            f"{file} sets {settings[0]}, which etcd 3.7 ignores, so that what it sets is off: nothing was changed; "
            f"remove it, or set what replaces it ({_successor(settings[0])})"
        )


def last_old_request(files: list[Path]) -> int:
    """The index of the last request of etcd 3.5 after the last snapshot of a log; 0 if there is none.

    `files` are those of its folder `member/wal`. etcd may be writing to the last one: a record that is not complete
    ends a file.
    """
    old: list[int] = []
    snapshot = 0
    for file in sorted(files, key=lambda file: file.name, reverse=True):
        with contextlib.suppress(FileNotFoundError), file.open("rb") as opened:  # etcd removes old files
            for record in _records(opened):
                if record.type == _SNAPSHOT:
                    snapshot = max(snapshot, _numbers(record.data).get(1, 0))
                elif record.type == _ENTRY and (index := _old_request(record.data)):
                    old.append(index)
        first = file.stem.rpartition("-")[2]
        if snapshot and re.fullmatch(r"[0-9a-f]+", first) and int(first, 16) <= snapshot:
            break
    return max((index for index in old if index > snapshot), default=0)


class _Record(NamedTuple):
    type: int
    data: bytes


def _is_crossed(node: Node, manifest: str, wanted: str) -> bool:
    image = re.search(r"(?m)^\s*(?:- )?image: \S+:(\S+)", manifest)
    present = find_version(image[1]) if image else None
    target = find_version(wanted)
    is_target = target[:2] >= FIRST_WITHOUT if target else node.contents.kubernetes.minor >= FIRST_KUBERNETES
    return is_target and (present is None or present[:2] < FIRST_WITHOUT)


def data_folder(node: Node, manifest: str) -> str:
    """The folder of etcd's data, in whichever form it is set; empty if nothing says where it is."""
    if file := _option(manifest, "config-file"):  # etcd ignores all other flags then, and variables
        return _in_file(node.files.text(file), "data-dir")
    return _option(manifest, "data-dir") or "/var/lib/etcd"


def _log(node: Node, manifest: str) -> tuple[str, str]:
    """The folder of etcd's log, empty if nothing says where it is, and what sets it."""
    data = data_folder(node, manifest)
    if file := _option(manifest, "config-file"):
        log = _in_file(node.files.text(file), "wal-dir")
        setting = f"wal-dir, or else data-dir, of {file}"
    else:
        log = _option(manifest, "wal-dir")
        setting = f"--wal-dir, or else --data-dir, of {MANIFEST}"
    return log or (f"{data}/member/wal" if data else ""), setting


def _option(manifest: str, name: str) -> str:
    """The value of a flag of the static pod, or of the variable that etcd reads without it; empty if none is set."""
    flags = re.findall(rf"(?<![\w-])--?{name}(?:=|[\"']?,?\s+(?:- )?)[\"']?([^\s\"',\]]+)", manifest)
    variable = f"ETCD_{name.upper().replace('-', '_')}"
    values = re.findall(rf"name: *[\"']?{variable}[\"']?\s+value: *[\"']?([^\s\"',]+)", manifest)
    return next(iter(flags[-1:] or values[-1:]), "")


def _in_file(text: str, name: str) -> str:
    """The value of a field of etcd's configuration file, in YAML or JSON; empty if it is not set."""
    field = re.search(rf"(?m)^[^#\n]*?(?<![\w-]){name}[\"']?\s*:\s*[\"']?([^\s\"',}}#]+)", text)
    return field[1] if field else ""


def _successor(flag: str) -> str:
    """The setting that replaces an experimental one in etcd 3.6 already: most lost their prefix."""
    plain = flag.removeprefix("experimental-")
    gates = {
        "initial-corrupt-check": "InitialCorruptCheck",
        "compact-hash-check-enabled": "CompactHashCheck",
        "txn-mode-write-with-shared-buffer": "TxnModeWriteWithSharedBuffer",
        "stop-grpc-service-on-defrag": "StopGRPCServiceOnDefrag",
        "enable-lease-checkpoint": "LeaseCheckpoint",
        "enable-lease-checkpoint-persist": "LeaseCheckpointPersist",
        "set-member-localaddr": "SetMemberLocalAddr",
    }
    return f"--feature-gates={gates[plain]}=true" if plain in gates else f"--{plain}"


def _records(file: BinaryIO) -> Iterator[_Record]:
    """The complete records of a file of the log. Their checksums are etcd's business."""
    while len(header := file.read(_FRAME.size)) == _FRAME.size:
        (frame,) = _FRAME.unpack(header)
        size = frame & ((1 << 56) - 1)
        if not 0 < size <= _LARGEST or len(content := file.read(size)) < size:
            return
        file.seek((frame >> 56) & 7 if frame < 0 else 0, os.SEEK_CUR)
        fields = dict(_fields(content))
        kind, data = fields.get(1), fields.get(3, b"")
        if isinstance(kind, int) and isinstance(data, bytes):
            yield _Record(kind, data)


def _old_request(entry: bytes) -> int:
    """The index of an entry if it is a request of etcd 3.5's first store, else 0."""
    fields = dict(_fields(entry))
    kind, index, data = fields.get(1, 0), fields.get(3, 0), fields.get(4, b"")
    if kind != 0 or not isinstance(index, int) or not isinstance(data, bytes):
        return 0
    method = next((value for number, value in _fields(data) if number == 2), None)
    return index if method in _METHODS else 0


def _numbers(message: bytes) -> dict[int, int]:
    return {number: value for number, value in _fields(message) if isinstance(value, int)}


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Numbers and values of a protobuf message's fields, up to the first that can't be read."""
    position = 0
    while position < len(message):
        tag, position = _varint(message, position)
        match tag & 7:
            case 0:
                value, position = _varint(message, position)
                yield tag >> 3, value
            case 2:
                size, position = _varint(message, position)
                if position + size > len(message):
                    return
                yield tag >> 3, message[position : position + size]
                position += size
            case 1 | 5 as kind:
                position += 8 if kind == 1 else 4
            case _:
                return


def _varint(message: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(message) and shift < 70:
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, position
    return 0, len(message)
