"""The archive of a support bundle: a tar.gz that only its owner may read, complete or absent, of limited size."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from espalier.api.meta import Tree
from espalier.api.text.listing import counted, first
from espalier.cli.clusters.support import fields, masks, values
from espalier.cli.clusters.support.reading import Findings, Log
from espalier.cli.kit.connecting.home import naming

LEFT_OUT = "(left out: it may quote Secrets, whose values could not be read)"


def entries(
    findings: Findings, about: Mapping[str, Any], limit: int, *, without_values: bool = False
) -> dict[str, bytes]:
    """The files of a bundle by path, with at most `limit` bytes of content.

    If values of Secrets are not known, logs and messages are left out, unless they are wanted `without_values`.
    Objects come first, then events, then the end of each log; what has no room is named in `report.json`.
    """
    hide = findings.masks()
    files: dict[str, bytes] = {}
    omitted: list[str] = []
    rest = limit

    def add(name: str, content: bytes) -> None:
        nonlocal rest
        if len(content) > rest:
            omitted.append(f"{name}: {len(content)} bytes")
            return
        rest -= len(content)
        files[name] = content

    shows_texts = not lacks_texts(findings, without_values)
    unread = [{"what": read.what, "error": hide.text(read.error)} for read in findings.unread]
    add("secrets.json", _json(findings.secrets))
    add("conditions.txt", hide.text(_conditions(findings, shows_texts=shows_texts)).encode())
    for place in sorted(findings.objects, key=lambda place: (place == "events", place)):
        add(f"{place}.json", _json([_masked(tree, hide, shows_texts=shows_texts) for tree in findings.objects[place]]))
    logs = findings.logs if shows_texts else []
    for at, log in enumerate(logs):
        share = rest // (len(logs) - at)
        text = hide.text(_end_of(log, share)).encode()
        add(log.name, text if len(text) <= share else text[len(text) - share :])
    report = {
        **about,
        "apiServer": findings.version,
        "reads": findings.reads,
        "notRead": unread,
        "leftOutForSize": omitted,
        "values": "of Secrets are masked in texts"
        if not findings.without_values
        else unmasked(findings, without_values),
        "textsBeyondBounds": len(findings.cut),
        "valuesBeyondBounds": beyond_bounds(findings),
    }
    return {"README.txt": _readme(report).encode(), "report.json": _json(report), **files}


def lacks_texts(findings: Findings, without_values: bool) -> bool:
    """True if logs and messages are left out, as values of Secrets in them would not be masked."""
    return bool(findings.without_values) and not without_values


def beyond_bounds(findings: Findings) -> str:
    """A sentence on texts with too many values; empty if there are none."""
    if not findings.cut:
        return ""
    return (
        f"of {counted(len(findings.cut), 'text')} beyond the first {values.MOST_VALUES}, or {values.MOST_CHARACTERS} "
        "characters, are masked by patterns alone: logs and messages may quote them"
    )


def unmasked(findings: Findings, without_values: bool) -> str:
    """A sentence on Secrets that were not read; empty if there are none."""
    if not findings.without_values:
        return ""
    where = first(findings.without_values, 5)
    if without_values:
        return f"of Secrets of {where} are not masked, for they could not be read: logs and messages may quote them"
    return f"of Secrets of {where} could not be read: logs and messages, which may quote them, are left out"


def write(path: Path, files: Mapping[str, bytes], now: datetime) -> int:
    """Write a tar.gz with mode 0600, complete or not at all, and return its bytes. Raises `OSError`."""
    folder = path.name.removesuffix(".tar.gz")
    with naming(path):  # a name that nobody can foresee: the folder may be one that all write to
        descriptor, partial = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with naming(path), open(descriptor, "wb") as file:
            with (
                gzip.GzipFile(fileobj=file, mode="wb", mtime=int(now.timestamp())) as packed,
                tarfile.open(fileobj=packed, mode="w") as archive,
            ):
                for name, content in files.items():
                    member = tarfile.TarInfo(f"{folder}/{_safe(name)}")
                    member.size, member.mtime, member.mode = len(content), int(now.timestamp()), 0o600
                    archive.addfile(member, io.BytesIO(content))
            file.flush()
            os.fsync(file.fileno())
            size = file.tell()
        os.replace(partial, path)
    finally:
        Path(partial).unlink(missing_ok=True)
    return size


def _safe(name: str) -> str:
    """A path that stays below the folder it is unpacked in, whatever an API server says that things are called."""
    parts = (re.sub(r"[^A-Za-z0-9._\-]", "_", part) for part in name.split("/"))
    return "/".join(part for part in parts if part.strip("."))


def _end_of(log: Log, share: int) -> str:
    """The last lines of a log that have room."""
    if len(log.text) <= share:
        return log.text
    cut = log.text[len(log.text) - share :]
    return cut.partition("\n")[2]


def _masked(value: Any, hide: masks.Masks, name: str = "", *, shows_texts: bool) -> Any:
    if isinstance(value, str):
        return hide.text(value) if shows_texts or name not in fields.TEXTS else LEFT_OUT
    if isinstance(value, dict):
        return {key: _masked(inner, hide, key, shows_texts=shows_texts) for key, inner in value.items()}
    if isinstance(value, list):
        return [_masked(inner, hide, name, shows_texts=shows_texts) for inner in value]
    return value


def _conditions(findings: Findings, *, shows_texts: bool) -> str:
    """Conditions that are not as they should be, a line each, to be read first."""
    lines = []
    for place, trees in sorted(findings.objects.items()):
        if place == "events":
            continue
        for tree in trees:
            for condition in _of(tree):
                if _is_unusual(condition):
                    metadata = tree.get("metadata") or {}
                    name = "/".join(filter(None, (metadata.get("namespace"), metadata.get("name"))))
                    message = " ".join(str(condition.get("message") or "-").split())
                    text = message if shows_texts or message == "-" else LEFT_OUT
                    since = condition.get("lastTransitionTime", "-")
                    words = (tree.get("kind"), name, condition.get("type"), condition.get("status"))
                    lines.append("  ".join([*map(str, words), str(condition.get("reason") or "-"), str(since), text]))
    return "".join(f"{line}\n" for line in lines)


def _of(tree: Tree) -> Sequence[Tree]:
    """The conditions of an object, whose kind may be one that providers define as they like."""
    conditions = (tree.get("status") or {}).get("conditions")
    return [entry for entry in conditions if isinstance(entry, dict)] if isinstance(conditions, list) else ()


def _is_unusual(condition: Tree) -> bool:
    is_summary = condition.get("type") in ("Ready", "Available", "Synced", "Established", "NamesAccepted")
    return condition.get("status") == "Unknown" or (is_summary and condition.get("status") == "False")


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode()


def _readme(report: Mapping[str, Any]) -> str:
    unread, omitted = report["notRead"], report["leftOutForSize"]
    lines = [
        f"Support bundle of {report['of']}, made {report['madeAt']} by espalier {report['espalier']}.",
        "",
        "report.json      versions, what could not be read and why, what was left out for size",
        "conditions.txt   conditions that are not as they should be, a line each",
        "clusters/, objects/, management/, events.json   listed fields of objects, nothing else of them",
        "secrets.json     names of Secrets; nothing else of Secrets is here",
        "logs/            the ends of logs of the manager, of Cluster API and of providers",
        "",
        "Annotations, labels, files, commands, environments and user data are in no bundle. Private values and what",
        "looks like a credential are replaced by (hidden) in messages and logs. Look through it before you send it.",
        f"Values {report['values']}.",
        *([f"Values {report['valuesBeyondBounds']}."] if report["valuesBeyondBounds"] else []),
        "",
        f"{counted(report['reads'], 'read')}, {len(unread)} failed; {counted(len(omitted), 'file')} left out for size.",
        *(f"  {read['what']}: {read['error']}" for read in unread),
        *(f"  {name}" for name in omitted),
    ]
    return "\n".join(lines) + "\n"
