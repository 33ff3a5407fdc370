"""Query options of requests, validated as by kube-apiserver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from espalier.apiserver.wire import failures
from espalier.kube.errors import StatusCause

Query = Mapping[str, str]

MAX_MANAGER = 128
"""The maximum length of a field manager's name."""

VALIDATIONS = ("", "Ignore", "Strict", "Warn")
PROPAGATIONS = ("Foreground", "Background", "Orphan")
_SHOWN_PROPAGATIONS = (*PROPAGATIONS, "nil")
EXACT, NOT_OLDER = "Exact", "NotOlderThan"
_MATCHES = (EXACT, NOT_OLDER, "")
_OPTIONS = {
    "create": "CreateOptions",
    "update": "UpdateOptions",
    "patch": "PatchOptions",
    "delete": "DeleteOptions",
    "deletecollection": "DeleteOptions",
}
_LISTING = frozenset({"list", "watch", "deletecollection"})
_WRITING = frozenset({"create", "update", "patch"})


def check(verb: str, query: Query, *, apply: bool = False) -> None:
    """Raise `BadRequest` or `Invalid` for invalid query options."""
    if not query:
        return
    if verb in _LISTING:
        number(query, "limit")
        number(query, "timeoutSeconds")
        _refuse("ListOptions", list(_list_problems(query, watching=verb == "watch")))
    if verb in _OPTIONS:
        number(query, "gracePeriodSeconds")
        _refuse(_OPTIONS[verb], list(_write_problems(verb, query, apply)))


def number(query: Query, name: str) -> int | None:
    """An option that is a number; None when it is not given. Raises `BadRequest`."""
    text = query.get(name)
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        shown = failures.shown(text)
        raise failures.bad_request(f"strconv.ParseInt: parsing {shown}: invalid syntax") from None


def flag(query: Query, name: str) -> bool:
    """True if an option is given and is neither `false` nor `0`."""
    text = query.get(name)
    return text is not None and text.lower() not in ("false", "0")


def dry_run(values: list[str]) -> Iterator[StatusCause]:
    """Violations of a dry run."""
    if any(value != "All" for value in values):
        yield failures.unsupported("dryRun", values, ("All",))


def propagation(policy: str | None, orphans: bool | None) -> Iterator[StatusCause]:
    """Violations of the propagation policy."""
    if policy is not None and orphans is not None:
        detail = "orphanDependents and deletionPropagation cannot be both set"
        yield failures.invalid("propagationPolicy", policy, detail)
    elif policy is not None and policy not in PROPAGATIONS:
        yield failures.unsupported("propagationPolicy", policy, _SHOWN_PROPAGATIONS)


def _list_problems(query: Query, *, watching: bool) -> Iterator[StatusCause]:
    field = "resourceVersionMatch"
    match, version = query.get(field, ""), query.get("resourceVersion", "")
    initial = "sendInitialEvents" in query
    if watching and initial:
        if match != NOT_OLDER:
            detail = f"sendInitialEvents requires setting resourceVersionMatch to {NOT_OLDER}"
            yield failures.forbidden_field(field, detail)
    elif initial:
        yield failures.forbidden_field("sendInitialEvents", "sendInitialEvents is forbidden for list")
    if watching and not initial and match:
        detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        yield failures.forbidden_field(field, detail)
    elif (match or watching) and query.get("continue"):
        yield failures.forbidden_field(field, "resourceVersionMatch is forbidden when continue is provided")
    elif match and not watching:
        if not version:
            detail = "resourceVersionMatch is forbidden unless resourceVersion is provided"
            yield failures.forbidden_field(field, detail)
        if match not in _MATCHES:
            yield failures.unsupported(field, match, _MATCHES)
        elif match == EXACT and version == "0":
            detail = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            yield failures.forbidden_field(field, detail)


def _write_problems(verb: str, query: Query, apply: bool) -> Iterator[StatusCause]:
    if verb == "patch" and not apply and flag(query, "force"):
        yield failures.forbidden_field("force", "may not be specified for non-apply patch")
    if verb not in _WRITING:
        yield from propagation(query.get("propagationPolicy"), None)
    if "dryRun" in query:
        yield from dry_run([query["dryRun"]])
    if verb in _WRITING:
        yield from _manager_problems(query.get("fieldManager", ""))
        level = query.get("fieldValidation", "")
        if level not in VALIDATIONS:
            yield failures.unsupported("fieldValidation", level, VALIDATIONS)


def _manager_problems(name: str) -> Iterator[StatusCause]:
    if len(name) > MAX_MANAGER:
        yield failures.too_long("fieldManager", MAX_MANAGER)
    for place, character in enumerate(name):
        if not character.isprintable():
            detail = f"invalid character U+{ord(character):04X} (at position {place})"
            yield failures.invalid("fieldManager", name, detail)


def _refuse(kind: str, causes: list[StatusCause]) -> None:
    if causes:
        raise failures.invalid_object(kind, "meta.k8s.io", "", causes)
