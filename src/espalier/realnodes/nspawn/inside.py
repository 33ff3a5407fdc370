"""State of a running node, read from its files.

Whoever is root in a node writes them: none is followed out of the node, waited for, or read without end.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Network
from pathlib import Path

import msgspec

from espalier.realnodes.nspawn.container import Running
from espalier.realnodes.nspawn.node_files import POD_RANGE
from espalier.realnodes.nspawn.plan import Bootstrap
from espalier.realnodes.nspawn.state import NodeFolder
from espalier.runtime import confined

SENTINEL = "run/cluster-api/bootstrap-success.complete"
"""Cluster API's contract for bootstrap data: this file tells that they ran to their end."""

RESULT = "run/cloud-init/result.json"
LOG = "var/log/cloud-init-output.log"
LAST_LINES = 12
LONGEST_END = 64 * 1024
"""Bytes of the log's end in which the last lines are looked for."""
_OWN_WORDS = re.compile(r"ci-info|Cloud-init v\.|[-0-9]{10} [:,0-9]{12} - \S+\.py\[")
"""What cloud-init says itself, between what the commands say."""


class _V1(msgspec.Struct):
    errors: list[str] = []


class _Result(msgspec.Struct):
    v1: _V1 = msgspec.field(default_factory=_V1)


def bootstrap(running: Running) -> Bootstrap:
    """True if the bootstrap data ran, and well. Bootstrap data of others than Cluster API leave no sentinel."""
    root = _root(running)
    begun, done = (confined.is_file(root, path) for path in (SENTINEL, RESULT))
    if begun:
        return Bootstrap.SUCCEEDED if done else Bootstrap.RUNNING
    try:
        result = msgspec.json.decode(confined.read(root, RESULT), type=_Result)
    except (OSError, msgspec.MsgspecError):
        return Bootstrap.RUNNING
    return Bootstrap.FAILED if result.v1.errors or not confined.is_file(root, SENTINEL) else Bootstrap.SUCCEEDED


def last_lines(folder: NodeFolder) -> str:
    """The end of what the bootstrap data said."""
    try:
        text = confined.read(folder.root, LOG, start=-LONGEST_END).decode(errors="replace")
    except OSError:
        return ""
    lines = [line for line in text.splitlines() if line.strip() and not _OWN_WORDS.match(line)]
    return "\n".join(lines[-LAST_LINES:])


def pod_range(folder: NodeFolder) -> str | None:
    """The addresses of the node's pods, None until the cluster has given it some."""
    try:
        return str(IPv4Network(confined.text(folder.root, POD_RANGE).strip()))
    except (OSError, ValueError):
        return None


def _root(running: Running) -> Path:
    """The node's own view of its files, which has what is in memory only."""
    return Path(f"/proc/{running.init.pid}/root")
