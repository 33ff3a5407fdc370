"""State of a running node, read from its files.

Root in a node may write anything there: links out of the node are not followed, and reads are bounded.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Network
from pathlib import Path

import msgspec

from espalier.realnodes.nspawn.container import Running
from espalier.realnodes.nspawn.node_files import POD_RANGE
from espalier.realnodes.nspawn.plan import Bootstrap
from espalier.realnodes.nspawn.system.state import NodeFolder
from espalier.runtime import confined

SENTINEL = "run/cluster-api/bootstrap-success.complete"
"""The sentinel file of Cluster API's bootstrap contract."""

RESULT = "run/cloud-init/result.json"
LOG = "var/log/cloud-init-output.log"
LAST_LINES = 12
LONGEST_END = 64 * 1024
"""The bytes at the log's end that are searched for the last lines."""
_OWN_WORDS = re.compile(r"ci-info|Cloud-init v\.|[-0-9]{10} [:,0-9]{12} - \S+\.py\[")
"""cloud-init's own log lines, between those of commands."""


class _V1(msgspec.Struct):
    errors: list[str] = []


class _Result(msgspec.Struct):
    v1: _V1 = msgspec.field(default_factory=_V1)


def bootstrap(running: Running) -> Bootstrap:
    """True if the bootstrap data succeeded. Only those of Cluster API write the sentinel."""
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
    """The last output of the bootstrap data."""
    try:
        text = confined.read(folder.root, LOG, start=-LONGEST_END).decode(errors="replace")
    except OSError:
        return ""
    lines = [line for line in text.splitlines() if line.strip() and not _OWN_WORDS.match(line)]
    return "\n".join(lines[-LAST_LINES:])


def pod_range(folder: NodeFolder) -> str | None:
    """The node's pod CIDR, None until the cluster assigned one."""
    try:
        return str(IPv4Network(confined.text(folder.root, POD_RANGE).strip()))
    except (OSError, ValueError):
        return None


def _root(running: Running) -> Path:
    """The node's own view of its files, including tmpfs."""
    return Path(f"/proc/{running.init.pid}/root")
