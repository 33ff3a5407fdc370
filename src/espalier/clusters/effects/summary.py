"""A preview in a few sentences, from a manager's caches: for server-side dry runs. Machines have no names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.text.listing import first
from espalier.clusters.design.provider import infrastructures
from espalier.clusters.effects.diff import Verb
from espalier.clusters.effects.machines import Group, RemovedMachine, groups, paused, refused_in_place
from espalier.clusters.effects.simulate import Simulated, simulate
from espalier.clusters.observe.scope import Scope

SENTENCE = "plan: "
"""Begins each sentence."""
NOTHING = f"{SENTENCE}nothing would change"

_MOST_FIELDS = 3
"""The most fields that a sentence names: API servers truncate long warnings."""

_VERBS: dict[Verb, str] = {"create": "created", "change": "changed", "delete": "deleted"}


def held(stops: str) -> str:
    """The sentence for a change that stops before any write, with the reason (`Preview.stops`)."""
    if stops.partition(":")[0] == Reason.VALUES_NOT_RESOLVED:
        return f"the effects are known once the provider has answered, which needs no action: {stops}"
    return f"then nothing is done: {stops}"


def sentences(scope: Scope) -> Iterator[str]:
    """The effects of storing the Cluster of this scope.

    Missing linked objects block nothing unless objects are rendered from them: in a dry run of a whole manifest none of
    it is stored.
    """
    is_known = scope.render_input is not None
    simulated = simulate(replace(scope, missing=()) if is_known else scope)
    stops = _stops(simulated)
    if scope.missing and (is_known or stops.startswith(Reason.MISSING_DEPENDENT_OBJECTS)):
        what = first([*dict.fromkeys(missing.what for missing in scope.missing)], 1)
        then = "then:" if is_known else "the effects are known then"
        yield f"plan: waiting for {what}, unless this manifest contains it; {then}"
        if not is_known:
            return
    if stops and not simulated.acts:
        yield f"plan: {held(stops)}"
        return
    counted = Counter(change.verb for change in simulated.objects)
    counts = [f"{counted[verb]} {word}" for verb, word in _VERBS.items() if counted[verb]]
    if counts:
        yield f"plan: objects of Cluster API: {', '.join(counts)}"
    if simulated.cni is not None:
        name = simulated.cni.content_hash.rpartition("-")[0]
        yield f"plan: the pod network is applied to the workload cluster ({name})"
    if simulated.workload:
        yield f"plan: {len(simulated.workload)} objects of the provider are changed in the workload cluster"
    if simulated.acts:
        moving = groups(simulated, None, infrastructures(scope.providers))
        yield from _machines(moving)
        stops = stops or refused_in_place(moving, scope.key.name) or paused(scope, moving)
    if stops:
        yield f"plan: then nothing more is done: {stops}"
    if not (counts or simulated.cni or simulated.workload or stops):
        yield NOTHING


_OF_OTHERS: dict[str, str] = {
    reason: reason.prose.meaning for reason in (Reason.CLUSTER_NAME_TAKEN, Reason.MANAGEMENT_CLUSTER_REF_INVALID)
}
"""Reasons whose messages name objects that the requester may not be allowed to read, with the text to use instead."""


def _stops(simulated: Simulated) -> str:
    reason = simulated.stops.partition(": ")[0]
    return f"{reason}: {_OF_OTHERS[reason]}" if reason in _OF_OTHERS else simulated.stops


def _machines(moving: Iterable[Group]) -> Iterator[str]:
    for group in moving:
        moves = list(_moves(group))
        if moves:
            yield f"plan: {group.name or 'control plane'}: {'; '.join(moves)}"


def _moves(group: Group) -> Iterator[str]:
    replaced = min(len(group.replaced), group.coming)
    more, fewer = group.coming - replaced, len(group.going) - replaced
    if group.upgraded:
        yield f"would upgrade {counted(len(group.upgraded))} in place because of {_fields(group.upgraded[0])}"
    if replaced:
        instead = f" (not in place: {_some(group.fallback)})" if group.fallback else ""
        yield f"would replace {counted(replaced)} because of {_fields(group.replaced[0])}{instead}"
    if more:
        yield f"would create {counted(more)}"
    if fewer:
        yield f"would remove {counted(fewer)}"


def _fields(going: RemovedMachine) -> str:
    return _some(going.why)


def _some(fields: Sequence[str]) -> str:
    return first(fields, _MOST_FIELDS)


def counted(number: int) -> str:
    """The number of machines, in words."""
    return "1 machine" if number == 1 else f"{number} machines"
