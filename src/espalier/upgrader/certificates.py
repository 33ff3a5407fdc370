"""The renewal of kubeadm's certificates on a control plane node, without any other change.

`kubeadm certs renew all` writes certificates one by one; static pods read most of them when they start. A record in a
directory of its own tells how far a renewal is, so that an interrupted one is continued; former certificates are kept
there until every static pod runs with the new ones, and are restored if one does not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from . import checks
from .changes import START_TIMEOUT
from .contents import WORK
from .host import LOCK, StepFailed
from .node import Node, disk_failure
from .services import tool_program
from .static_pods import MANIFESTS, RESTARTED, annotated, manifests, mirror, mounted, not_restarted, text_sum

FOLDER = f"{WORK}/certificates"
RECORD = f"{FOLDER}/record.json"
PLACES = ("/etc/kubernetes", "/etc/kubernetes/pki", "/etc/kubernetes/pki/etcd")
"""Directories of kubeadm's kubeconfigs and certificates."""
OF_KUBELET = ("kubelet.conf", "bootstrap-kubelet.conf")
"""Kubeconfigs that kubelets renew themselves."""
TIMEOUT = 300
"""Seconds; kubeadm signs in less than one, but reads its configuration from the API server."""


@dataclass(frozen=True)
class Record:
    """The state of a renewal."""

    upgrade: str
    """The identity of the NodeUpgrade."""
    manifests: Mapping[str, str]
    """Name -> former text of the static pod manifests."""
    hashes: Mapping[str, str]
    """Name -> hash of the manifest that the kubelet ran, as its mirror pod reports it; empty if it ran none."""
    is_renewed: bool = False
    """True once kubeadm has written all certificates."""


def renew(node: Node, version: str, upgrade: str) -> str:
    """Renew the certificates that kubeadm manages, and restart the static pods that use them.

    Raises `StepFailed`; then the former certificates are in use again, unless its message says otherwise.
    """
    if not node.control_plane:
        raise StepFailed("the node has no static pod of kube-apiserver, so kubeadm has issued no certificates for it")
    checks.check_image(node, version)
    checks.check_operating_system(node)
    try:
        record = _begun(node, upgrade)
        if not record.is_renewed:
            _run_kubeadm(node)
            record = replace(record, is_renewed=True)
            _write(node, record)
        renewed = [path for path in _paths(node) if node.files.checksum(path) != node.files.checksum(_backup(path))]
        due = _restarted(node, record, renewed)
        before = {name: {"hash": former} for name, former in record.hashes.items()}
        missing = node.until(lambda: not_restarted(node, due, before), timeout=START_TIMEOUT, every=2)
        if missing:
            _restore(node, record)
            raise StepFailed(
                f"{missing} within {START_TIMEOUT} s of the renewal of its certificates; the former certificates were "
                "restored; fix the cause, then delete the pod to retry"
            )
        _clean_up(node)
    except OSError as error:
        raise disk_failure(error, "can't renew the certificates of the node") from error
    return f"kubeadm renewed {len(renewed)} certificates and kubeconfigs, and {len(due)} static pods run with them"


def _begun(node: Node, upgrade: str) -> Record:
    """The record of this renewal, with backups of the certificates that were in use when it began."""
    record = _read(node)
    if record is not None and record.upgrade == upgrade:
        return record
    if record is not None:  # an earlier renewal was interrupted; what it left may not fit together
        _restore(node, record)
    checks.check_control_plane(node)
    node.files.remove_folder(FOLDER)
    node.files.make_folder(FOLDER)
    for path in _paths(node):
        source = node.files.place(path)
        node.files.make_folder(_backup(path).rpartition("/")[0])
        node.files.put(source, _backup(path), expected=node.files.checksum(path), mode=source.stat().st_mode)
    present = manifests(node)
    record = Record(upgrade, present, {name: mirror(node, text)[1] for name, text in present.items()})
    _write(node, record)
    return record


def _run_kubeadm(node: Node) -> None:
    program = next(iter(tool_program(node, "kubeadm")))
    if not node.files.is_file(program):
        raise StepFailed(f"{program} does not exist, so no certificates were renewed: install kubeadm on the node")
    result = node.commands.follow(program, "certs", "renew", "all", timeout=TIMEOUT, say=node.say)
    if result.code:
        _restore_certificates(node)
        _clean_up(node)
        raise StepFailed(
            f"kubeadm certs renew all exited {result.code}: {result.last_lines(3)}; the former certificates were "
            "restored; fix the cause, then delete the pod to retry"
        )


def _restarted(node: Node, record: Record, renewed: list[str]) -> list[str]:
    """Names of the static pods that mount a renewed file, after an annotation by which the kubelet restarts them."""
    due = [name for name, text in record.manifests.items() if mounted(text, renewed)]
    # Certificates of their own, because a renewal that ended unseen is repeated, and must restart the pods once more.
    sums = text_sum("".join(node.files.checksum(path) for path in renewed))
    for name in due:
        path = f"{MANIFESTS}/{name}"
        text = node.files.text(path)
        wanted = annotated(path, text, f"{record.upgrade}-{sums[:8]}") if text else ""
        if wanted != text:
            node.files.place_content(path, wanted.encode(), mode=node.files.mode(path))
            node.say(f"restarting the static pod of {path}: certificates that it mounts were renewed")
    return due


def _restore(node: Node, record: Record) -> None:
    """Put former certificates and manifests back; the record goes last, so that an interruption can be repeated."""
    _restore_certificates(node)
    for name, text in record.manifests.items():
        path = f"{MANIFESTS}/{name}"
        present = node.files.text(path)
        if (
            present and present != text and f'{RESTARTED}: "{record.upgrade}' in present
        ):  # else somebody else has changed it since
            node.files.place_content(path, text.encode(), mode=node.files.mode(path))
    _clean_up(node)


def _restore_certificates(node: Node) -> None:
    for path in _paths(node):
        backup = _backup(path)
        expected = node.files.checksum(backup)
        if expected and expected != node.files.checksum(path):
            source = node.files.place(backup)
            node.files.put(source, path, expected=expected, mode=source.stat().st_mode)


def _clean_up(node: Node) -> None:
    node.files.remove(RECORD)  # first: a record without its backups would restore nothing
    for path in (*_paths(node), *(f"{MANIFESTS}/{name}" for name in manifests(node))):
        node.files.sweep(path)
    node.files.remove_folder(FOLDER)
    if not node.files.names(WORK):
        node.files.remove_folder(WORK)
    node.files.remove(LOCK)


def _paths(node: Node) -> Iterator[str]:
    """The certificates, keys and kubeconfigs in kubeadm's directories, without those of kubelets."""
    for folder in PLACES:
        for name in node.files.names(folder):
            is_meant = name.endswith((".crt", ".key", ".conf")) and not name.startswith(".")
            if is_meant and name not in OF_KUBELET and node.files.is_file(f"{folder}/{name}"):
                yield f"{folder}/{name}"


def _backup(path: str) -> str:
    return f"{FOLDER}/former{path}"


def _write(node: Node, record: Record) -> None:
    tree: dict[str, Any] = {
        "upgrade": record.upgrade,
        "manifests": dict(record.manifests),
        "hashes": dict(record.hashes),
        "isRenewed": record.is_renewed,
    }
    node.files.write(RECORD, json.dumps(tree))


def _read(node: Node) -> Record | None:
    """The record of a renewal that was begun; None without, or if it is unreadable."""
    try:
        tree = json.loads(node.files.text(RECORD) or "{}")
        return Record(tree["upgrade"], tree["manifests"], tree["hashes"], tree["isRenewed"])
    except (ValueError, KeyError, TypeError):
        return None
