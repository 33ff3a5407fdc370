"""What a running node says of itself, read from its files."""

from __future__ import annotations

import re
from ipaddress import IPv4Network
from pathlib import Path

import msgspec

from espalier.local.nspawn.container import Running
from espalier.local.nspawn.node_files import POD_RANGE
from espalier.local.nspawn.plan import Bootstrap
from espalier.local.nspawn.state import NodeFolder

SENTINEL = "run/cluster-api/bootstrap-success.complete"
"""Cluster API's contract for bootstrap data: this file tells that they ran to their end."""

RESULT = "run/cloud-init/result.json"
LOG = "var/log/cloud-init-output.log"
LAST_LINES = 12
_OWN_WORDS = re.compile(r"ci-info|Cloud-init v\.|[-0-9]{10} [:,0-9]{12} - \S+\.py\[")
"""What cloud-init says itself, between what the commands say."""


class _V1(msgspec.Struct):
    errors: list[str] = []


class _Result(msgspec.Struct):
    v1: _V1 = msgspec.field(default_factory=_V1)


def bootstrap(running: Running) -> Bootstrap:
    """Whether the bootstrap data ran, and well. Bootstrap data of others than Cluster API leave no sentinel."""
    root = _root(running)
    if (root / SENTINEL).exists():
        return Bootstrap.SUCCEEDED if (root / RESULT).exists() else Bootstrap.RUNNING
    try:
        result = msgspec.json.decode((root / RESULT).read_bytes(), type=_Result)
    except (OSError, msgspec.MsgspecError):
        return Bootstrap.RUNNING
    return Bootstrap.FAILED if result.v1.errors or not (root / SENTINEL).exists() else Bootstrap.SUCCEEDED


def last_lines(folder: NodeFolder) -> str:
    """The end of what the bootstrap data said."""
    try:
        text = (folder.root / LOG).read_text(errors="replace")
    except OSError:
        return ""
    lines = [line for line in text.splitlines() if line.strip() and not _OWN_WORDS.match(line)]
    return "\n".join(lines[-LAST_LINES:])


def pod_range(folder: NodeFolder) -> str | None:
    """The addresses of the node's pods, None until the cluster has given it some."""
    try:
        return str(IPv4Network((folder.root / POD_RANGE.lstrip("/")).read_text().strip()))
    except (OSError, ValueError):
        return None


def _root(running: Running) -> Path:
    """The node's own view of its files, which has what is in memory only."""
    return Path(f"/proc/{running.init.pid}/root")
