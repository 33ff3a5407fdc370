"""A plan as text, and as data for programs."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from espalier.api.eksa.vocabulary.metadata_keys import PATCHES_ANNOTATION
from espalier.api.meta import Tree
from espalier.api.text.listing import first, merged
from espalier.api.text.printable import in_one_line, quoted
from espalier.cli.kit.printing import output
from espalier.cli.kit.printing.layout import LONGEST
from espalier.clusters.effects import summary
from espalier.clusters.effects.diff import FieldChange, ObjectChange, Verb
from espalier.clusters.effects.duration import Duration
from espalier.clusters.effects.machines import GROUP_REMOVED, SCALED_IN, Group
from espalier.clusters.preview.previews import Preview

Lines = Iterator[str]

_SIGNS = {"create": "+", "change": "~", "delete": "-"}
_COLOURS = {"+": "32", "~": "33", "-": "31", "!": "31", "bold": "1", "dim": "2"}
_MOST_NAMED = 8
_NO_TERMINAL = 120
_LONGEST_NAME = 1000
"""Characters of a place in a plan: a name of an object that is refused may be as long as a file."""


class Planned(NamedTuple):
    """Text of a preview: changes now and, for a new manager, at the cluster's next change."""

    now: Preview
    later: Preview | None = None


def facts(planned: Sequence[Planned]) -> Tree:
    """The plan as data."""
    return {
        "clusters": [
            _facts(previews.now) | ({"atNextChange": _facts(previews.later)} if previews.later else {})
            for previews in planned
        ]
    }


def write(planned: Sequence[Planned]) -> None:
    """Print the plan; on a terminal in colours, and within its width."""
    writer = _TextWriter(colours=sys.stdout.isatty() and not os.environ.get("NO_COLOR"), width=_width())
    for previews in planned:
        output.write_styled("".join(f"{line}\n" for line in writer.cluster(previews)))
    if not planned:
        output.say("No clusters found.")
        return
    output.write_styled("".join(f"{line}\n" for line in writer.summary([previews.now for previews in planned])))


def lines(preview: Preview, width: int) -> list[str]:
    """The lines about one cluster, without its name."""
    return list(_TextWriter(colours=False, width=width)._body(preview))


def _width() -> int:
    """As `shutil.get_terminal_size`, but importing that module takes longer than printing a plan."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or _NO_TERMINAL
    except (OSError, ValueError):  # not a terminal, or closed
        return _NO_TERMINAL


class _TextWriter:
    def __init__(self, *, colours: bool, width: int) -> None:
        self._colours = colours
        self._width = max(width, 40)

    def cluster(self, planned: Planned) -> Lines:
        """Everything about one cluster."""
        preview = planned.now
        yield self._coloured("bold", quoted(f"Cluster {preview.key}", _LONGEST_NAME))
        yield from self._body(preview)
        if planned.later is not None and not planned.later.is_empty:
            yield from self._sentence("At its next change of any kind, the manager would also do this:")
            yield from self._body(planned.later)
        yield ""

    def _body(self, preview: Preview) -> Lines:
        yield from self._section("You change", preview.asked)
        for refusal in preview.refusals:
            yield from self._marked(
                "!", f"refused: {quoted(refusal.field, _LONGEST_NAME)}: {refusal.message}".replace(": : ", ": ")
            )
        if preview.stops and not preview.objects:
            yield from self._marked("!", summary.held(preview.stops))
        yield from self._section("The manager writes", preview.objects)
        if preview.cni is not None:
            cni = preview.cni
            name = cni.content_hash.rpartition("-")[0]
            title = f"In the workload cluster, for the pod network ({name})"
            if cni.is_exact:
                yield from self._section(title, cni.objects)
            else:
                yield from self._sentence(f"{title}: {len(cni.objects)} objects are applied; the existing ones differ")
        yield from self._section("In the workload cluster, for the provider", preview.workload)
        if preview.groups:
            both = len({group.is_of_workers for group in preview.groups}) > 1
            order = " (workers once all of the control plane has its version)" if both and preview.workers_wait else ""
            yield from self._sentence(f"Machines{order}")
            for group in preview.groups:
                yield from self._group(group)
        if preview.duration is not None and preview.duration.seconds:
            yield from self._sentence(_estimate(preview.duration))
        if preview.in_place is not None:
            yield from self._sentence(_out_of_service(preview.in_place))
        if preview.stops and preview.objects:
            yield from self._marked("!", f"then nothing more is done: {preview.stops}")
        for what in preview.drift:
            yield from self._marked("!", f"drifted, left unchanged: {what}")
        for layer in preview.offered:
            yield from self._sentence(f"Patch {layer.name} is offered: {layer.why}")
            yield from self._wrapped(
                f"To see what it changes, add {PATCHES_ANNOTATION}: {layer.name} and plan that.", 4
            )
        for warning in merged(preview.warnings):
            yield from self._marked("!", f"warning: {quoted(warning, 2 * _LONGEST_NAME)}")
        if preview.is_empty and not preview.stops:
            yield from self._sentence("Nothing would change.")

    def _section(self, title: str, changes: Iterable[ObjectChange]) -> Lines:
        changes = list(changes)
        if changes:
            yield from self._sentence(title)
        for change in changes:
            place = f" in the place of {change.instead_of}" if change.instead_of else ""
            yield from self._marked(_SIGNS[change.verb], quoted(f"{change}{place}", _LONGEST_NAME))
            for field in change.fields:
                yield from self._field(field)

    def _field(self, change: FieldChange) -> Lines:
        old, new = _text(change.old), _text(change.new)
        line = f"        {in_one_line(change.field)}: {old} → {new}"
        if len(line) <= self._width:
            yield line
            return
        yield from self._wrapped(f"{change.field}:", 8)
        yield from self._wrapped(old, 12)
        yield from self._wrapped(f"→ {new}", 10)

    def _group(self, group: Group) -> Lines:
        yield from self._wrapped(f"{group.name or 'control plane'}: {', '.join(_moves(group))}", 4)
        by_reason: dict[tuple[str, ...], list[str]] = {}
        for going in (*group.upgraded, *group.going):
            by_reason.setdefault(going.why, []).append(going.name)
        for why, names in by_reason.items():
            yield from self._wrapped(_listed(names), 8)
            if why not in ((SCALED_IN,), (GROUP_REMOVED,)):
                yield from self._wrapped(f"because of {', '.join(why)}", 10)

    def summary(self, previews: Sequence[Preview]) -> list[str]:
        """One summary line for all clusters, if it fits."""
        refused = sum(bool(preview.refusals) for preview in previews)
        objects = Counter(change.verb for preview in previews for change in (*preview.asked, *preview.objects))
        groups = [group for preview in previews for group in preview.groups]
        parts = [f"{objects[verb]} {word}" for verb, word in _WORDS.items() if objects[verb]]
        replaced = sum(_replacements(group) for group in groups)
        machines = {
            "upgraded in place": sum(len(group.upgraded) for group in groups),
            "replaced": replaced,
            "made": sum(group.coming for group in groups) - replaced,
            "removed": sum(len(group.going) for group in groups) - replaced,
        }
        counted = [f"{number} {word}" for word, number in machines.items() if number]
        if unknown := sum(preview.is_unknown for preview in previews):
            counted.append(f"unknown for {unknown} of {len(previews)} clusters" if len(previews) > 1 else "unknown")
        text = f"objects: {', '.join(parts) or 'none'}; machines: {', '.join(counted) or 'none'}"
        clusters = f"{len(previews)} cluster{'s' if len(previews) != 1 else ''}"
        return self._wrapped(f"{clusters}; {text}" + (f"; {refused} refused" if refused else ""), 0)

    def _marked(self, sign: str, text: str) -> Lines:
        first, *rest = self._wrapped(text, 6) if text else [""]
        yield f"    {self._coloured(sign, sign)} {first.strip()}"
        yield from rest

    def _sentence(self, text: str) -> Lines:
        yield from self._wrapped(text, 2)

    def _wrapped(self, text: str, indent: int) -> list[str]:
        blank = " " * indent
        further = f"{blank}  "
        return textwrap.wrap(
            quoted(text, LONGEST),
            self._width,
            initial_indent=blank,
            subsequent_indent=further,
            break_on_hyphens=False,
            break_long_words=False,
        ) or [blank]

    def _coloured(self, name: str, text: str) -> str:
        return f"\x1b[{_COLOURS[name]}m{text}\x1b[0m" if self._colours else text


_WORDS: dict[Verb, str] = {"create": "created", "change": "changed", "delete": "deleted"}


def _moves(group: Group) -> Lines:
    replaced = _replacements(group)
    more, fewer = group.coming - replaced, len(group.going) - replaced
    if group.upgraded:
        number = len(group.upgraded)
        yield f"{number} upgraded in place" + (", node by node" if number > 1 else "")
    if replaced:
        of = f" of {group.present}" if group.present != replaced else ""
        pace = "one at a time" if group.at_once == 1 else f"{group.at_once} at a time"
        yield f"{replaced}{of} replaced, {pace}" if replaced > 1 else f"{replaced}{of} replaced"
    if group.fallback:
        yield f"replaced by upgradeRolloutStrategy.fallback: not possible in place: {', '.join(group.fallback)}"
    if more > 0:
        yield f"{more} made"
    if fewer > 0:
        yield f"{fewer} removed"
    if group.in_place:
        yield f"updated in place: {', '.join(group.in_place)}"
    if group.refused:
        yield f"none of {group.present} changed: not possible in place: {', '.join(group.refused)}"
    if group.blocked:
        yield f"none of {group.present} upgraded in place until somebody acts"


def _replacements(group: Group) -> int:
    return min(len(group.replaced), group.coming)


def _listed(names: Sequence[str]) -> str:
    return first([name for name in names if name], _MOST_NAMED)


def _estimate(duration: Duration) -> str:
    each = _time(duration.machine_seconds)
    source = (
        f"the median of its {duration.measured} machines"
        if duration.measured > 1
        else "as its machine took"
        if duration.measured
        else "assumed, because the cluster has no machines to measure"
    )
    return f"Takes about {_time(duration.seconds)}: {each} for each machine ({source}), plus draining."


def _out_of_service(duration: Duration) -> str:
    source = (
        f"the median of {duration.measured} machines in the previous upgrade"
        if duration.measured
        else "assumed, because no machine of the cluster was upgraded in place before"
    )
    return (
        f"Upgrades in place take about {_time(duration.seconds)}: {_time(duration.machine_seconds)} for each node "
        f"({source}), which is out of service for most of it; with a single control plane node, the API server is "
        "unavailable while kubeadm restarts it."
    )


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def _text(value: Any) -> str:
    if value is None:
        return "nothing"
    return quoted(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), LONGEST)


def _facts(preview: Preview) -> Tree:
    return {
        "namespace": preview.key.namespace,
        "name": preview.key.name,
        "wouldChange": not preview.is_empty,
        "settled": preview.settled,
        "stops": preview.stops,
        "refusals": [{"field": refusal.field, "message": refusal.message} for refusal in preview.refusals],
        "warnings": list(preview.warnings),
        "asked": [_object(change) for change in preview.asked],
        "objects": [_object(change) for change in preview.objects],
        "drift": list(preview.drift),
        "workloadCluster": None
        if preview.cni is None
        else {
            "contentHash": preview.cni.content_hash,
            "installed": preview.cni.installed,
            "exact": preview.cni.is_exact,
            "objects": [_object(change) for change in preview.cni.objects],
        },
        **({"workloadObjects": [_object(literals) for literals in preview.workload]} if preview.workload else {}),
        "offeredPatches": [
            {"name": layer.name, "why": layer.why, "annotation": PATCHES_ANNOTATION} for layer in preview.offered
        ],
        "machines": None if preview.is_unknown else [_machines(group) for group in preview.groups],
        "workersWaitForControlPlane": preview.workers_wait,
        "estimate": _seconds(preview.duration),
        "inPlaceEstimate": _seconds(preview.in_place),
    }


def _seconds(duration: Duration | None) -> Tree | None:
    if duration is None:
        return None
    return {
        "seconds": round(duration.seconds, 1),
        "secondsPerMachine": round(duration.machine_seconds, 1),
        "measuredMachines": duration.measured,
    }


def _object(change: ObjectChange) -> Tree:
    return {
        "action": change.verb,
        "apiVersion": change.api_version,
        "kind": change.kind,
        "namespace": change.namespace,
        "name": change.name,
        **({"insteadOf": change.instead_of} if change.instead_of else {}),
        "fields": [{"field": field.field, "old": field.old, "new": field.new} for field in change.fields],
    }


def _machines(group: Group) -> Tree:
    return {
        "group": group.name or "control plane",
        "present": group.present,
        "going": [{"name": machine.name, "because": list(machine.why)} for machine in group.going],
        "coming": group.coming,
        "atOnce": group.at_once,
        "inPlace": list(group.in_place),
        "upgradedInPlace": [{"name": machine.name, "because": list(machine.why)} for machine in group.upgraded],
        "refusedInPlace": list(group.refused),
        "fallbackBecauseOf": list(group.fallback),
        "blockedInPlace": list(group.blocked),
    }
