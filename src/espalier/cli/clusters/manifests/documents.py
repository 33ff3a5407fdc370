"""Manifests on their way to the API server: read, checked as a whole, then applied so that nothing is half-created."""

from __future__ import annotations

import copy
import os
import re
import sys
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from espalier.api.core import NAMESPACE
from espalier.api.eksa.cluster import Cluster
from espalier.api.kinds import KubeObject
from espalier.api.manifests import leniency, manifests
from espalier.api.manifests.manifests import Document
from espalier.api.manifests.schema import violations
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.api.text import paths, patterns
from espalier.api.text.violations import ManifestError, Problem, Violation
from espalier.api.trees import json_trees
from espalier.cli.clusters.manifests import mirror_authority, other_kinds
from espalier.cli.kit import flags
from espalier.cli.kit.failures import Failure
from espalier.cli.kit.printing import output
from espalier.clusters.design import names
from espalier.clusters.design.provider import Providers
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import Forbidden, KubeError, NotFound
from espalier.kube.objects import Object, to_bytes
from espalier.providers.kinds import CATALOG


def read(files: Sequence[str], *, several: bool = False) -> list[Document]:
    """All documents of the files, of one cluster or of `several`; `-` is standard input. Says which other objects are
    ignored.

    Raises `ManifestError` (every problem with file, line and field) and `Failure` for a file that can't be read.
    """
    documents, problems, others = examined(files, several=several)
    if problems:
        raise ManifestError(problems)
    other_kinds.say(others)
    return documents


class Examined(NamedTuple):
    """The documents of files."""

    documents: list[Document]
    problems: list[Problem]
    others: list[Document]
    """Objects that are no part of a cluster."""


def examined(files: Sequence[str], *, several: bool = False) -> Examined:
    """The same, with the problems, for callers that find more of them. Raises `ManifestError` for invalid YAML."""
    documents: list[Document] = []
    for name in (file for given in files for file in _in_folder(given)):
        if name == "-":
            documents += manifests.read_manifests(sys.stdin.buffer.read(), source="standard input")
            continue
        path = Path(name)
        try:
            documents += manifests.read_manifests(path.read_bytes(), source=name)
        except FileNotFoundError:
            raise Failure(f"{name}: no such file") from None
    others = [document for document in documents if manifests.is_other(document, CATALOG)]
    own = (document for document in documents if not manifests.is_other(document, CATALOG))
    documents = [mirror_authority.completed(_as_meant(document), os.environ) for document in own]
    try:
        manifests.check(documents, CATALOG, several=several)
    except ManifestError as error:
        problems = [_with_versions(problem) for problem in error.problems]
        return Examined(documents, [*problems, *_against_rules(documents, problems)], others)
    return Examined(documents, [], others)


_MANIFESTS = (".yaml", ".yml", ".json")


def _in_folder(name: str) -> list[str]:
    """The manifests of a folder, not of those within it, as for kubectl; the name itself, if it is no folder."""
    path = Path(name)
    if name == "-" or not path.is_dir():
        return [name]
    files = sorted(str(entry) for entry in path.iterdir() if entry.suffix in _MANIFESTS and not entry.is_dir())
    if not files:
        raise Failure(f"{name}: a folder without manifests; their names end with {', '.join(_MANIFESTS)}")
    return files


def _as_meant(document: Document) -> Document:
    kind = CATALOG.kind_of(document.api_version, document.kind)
    if kind is None:
        return document
    tree, notes = leniency.read(kind, document.tree, document.node)
    return replace(document, tree=tree, notes=notes)


def _with_versions(problem: Problem) -> Problem:
    """For an invalid Kubernetes version: the versions of the newest release instead of the pattern."""
    violation = problem.violation
    if not violation.field.endswith("kubernetesVersion") or violation.message != patterns.WRONG_FORM:
        return problem
    from espalier.releases import Releases, kubernetes_versions  # noqa: PLC0415  only for those who got it wrong

    newest = Releases.load().newest()
    allowed = f"{', '.join(kubernetes_versions(newest.bundles))} (in release {newest.version})"
    return replace(problem, violation=replace(violation, allowed=allowed, message="not a version of Kubernetes"))


def _against_rules(documents: Sequence[Document], known: Sequence[Problem]) -> Iterator[Problem]:
    """Problems of Clusters beyond their schema, as far as they can be decoded, so that all are reported at once."""
    from espalier.clusters.observe.rules import content  # noqa: PLC0415
    from espalier.clusters.observe.scope import is_self_managed  # noqa: PLC0415
    from espalier.providers.registry import PROVIDERS  # noqa: PLC0415  only for those who got something wrong

    for document in documents:
        tree = readable(document)
        if tree is None:
            continue
        cluster = msgspec.convert(tree, Cluster)
        violations_ = [] if is_self_managed(cluster) else content.violations(cluster, PROVIDERS)
        yield from (document.problem(violation) for violation in violations_ if not is_reported(violation.field, known))


def readable_parts(documents: Sequence[Document], *, as_accepted: bool = False) -> list[Document]:
    """The documents that can be decoded, with something in required fields that are missing. Fields that the schemas
    reject are left out where they prevent it; with `as_accepted`, all of them.
    """
    parts = []
    for document in documents:
        cls = CATALOG.kind_of(document.api_version, document.kind)
        if cls is None or not document.name:
            continue
        tree = copy.deepcopy(json_trees.without_nulls(document.tree))
        rejected = violations(cls, tree)
        for violation in rejected:
            _fill(tree, violation.field, cls)
        if as_accepted or not _decodes(tree, cls):
            for violation in rejected:
                if any(other.field == violation.field for other in violations(cls, tree)):
                    _take_away(tree, violation.field)
                    _fill(tree, violation.field, cls)
        for violation in rejected:
            if not _decodes(tree, cls):  # a field that must be there, and whose values can't be guessed
                _take_away_around(tree, violation.field, cls)
        if _decodes(tree, cls):
            parts.append(replace(document, tree=tree))
    return parts


def _take_away_around(tree: Tree, field: str, cls: type[KubeObject]) -> None:
    """Take away the smallest part around a field without which the schema no longer rejects it."""
    steps = paths.parsed(field) or ()
    for end in range(len(steps) - 1, 1, -1):
        if not any(violation.field == field for violation in violations(cls, tree)):
            return
        _take_away_steps(tree, steps[:end])


def _fill(tree: Tree, field: str, cls: type[KubeObject]) -> None:
    """Set a missing field to a value that its schema takes, the least one if there is a choice, if it is required."""
    if not any(violation.field == field for violation in violations(cls, tree)):
        return
    *around, last = paths.parsed(field) or ("",)
    at: Any = tree
    for step in around:
        try:
            at = at[step]
        except (LookupError, TypeError):
            return
    if not isinstance(at, dict) or last in at:
        return
    values: list[Any] = ["", 0, 1, False, {}, []]
    for value in values:
        at[last] = copy.copy(value)
        rejected = [violation for violation in violations(cls, tree) if violation.field == field]
        if not rejected:
            for within in violations(cls, tree):  # a part has required fields of its own
                if within.field.startswith(f"{field}."):
                    _fill(tree, within.field, cls)
            return
        if value == "":
            values += [
                allowed for violation in rejected for allowed in violation.allowed.split(", ")
            ]  # those of an enum
    del at[last]


def merged(documents: Sequence[Document], by_schema: Sequence[Problem], by_rules: Sequence[Problem]) -> list[Problem]:
    """All problems of a manifest in the order of its lines, each fault once: where two rules state it, the more exact
    field remains, and what rules say of a field that the schema rejects, or of one around it, is left out.
    """
    merged: list[Problem] = []
    for problem in by_rules:
        beside = [other for other in by_schema if _place(documents, other) == _place(documents, problem)]
        if is_reported(problem.violation.field, beside):
            continue
        same = [
            at
            for at, other in enumerate(merged)
            if _place(documents, other) == _place(documents, problem) and _repeats(problem, other)
        ]
        if not same:
            merged.append(problem)
        elif len(problem.violation.field) > len(merged[same[0]].violation.field):
            merged[same[0]] = problem
    return sorted([*by_schema, *merged], key=lambda problem: (problem.source, problem.line))


def is_beside(documents: Sequence[Document], problem: Problem, others: Sequence[Problem]) -> bool:
    """True if others are about the same part of the same spec, so that it may only follow from what they reject."""
    part = _part(problem.violation.field)
    return any(
        _part(other.violation.field) == part and _place(documents, other) == _place(documents, problem)
        for other in others
    )


def _part(field: str) -> tuple[paths.PathStep, ...]:
    return (paths.parsed(field) or ())[:2]


def _place(documents: Sequence[Document], problem: Problem) -> int:
    """The object of a problem: the last one that begins before it."""
    starts = [at for at, document in enumerate(documents) if document.source == problem.source]
    return max((at for at in starts if documents[at].line("") <= problem.line), default=-1)


def _repeats(problem: Problem, other: Problem) -> bool:
    """True if two rules of one object state the same fault."""
    field, known = problem.violation.field, other.violation.field
    if field == known:
        return True
    is_related = bool(field and known) and (is_within(field, known) or is_within(known, field))
    return is_related and _sentence(problem) == _sentence(other)


def _sentence(problem: Problem) -> str:
    return problem.violation.message.partition("; found ")[0]


_FIELD = re.compile(
    r"(?:(?P<kind>[A-Z][A-Za-z]+) (?P<name>[a-z0-9.-]+): )?(?P<field>(?:spec|metadata)(?:[.[][^\s:]*)?)(?:: |$)"
)
"""A field at the beginning of a message, perhaps of an object that the Cluster links."""


def located(documents: Sequence[Document], cluster: Document, violation: Violation) -> Problem:
    """A violation of a Cluster, or of an object that its field or message names first, with its position."""
    named = _FIELD.match(violation.field or violation.message)
    if named is None:
        return cluster.problem(violation)
    field, message = named["field"], violation.message[named.end() :]
    exact = replace(violation, field=field) if violation.field else Violation.of(field, message)
    if not named["kind"]:
        return cluster.problem(exact)
    for candidate in documents:
        is_beside = not candidate.namespace or candidate.namespace == cluster.namespace
        if (candidate.kind, candidate.name) == (named["kind"], named["name"]) and is_beside:
            return candidate.problem(exact)
    return cluster.problem(violation)


def is_about_refused(documents: Sequence[Document], warning: str, problems: Sequence[Problem]) -> bool:
    """True if a warning begins with a field for which a manifest is refused anyway."""
    named = _FIELD.match(warning)
    if named is None:
        return False
    places = {
        at
        for at, document in enumerate(documents)
        if document.kind == (named["kind"] or Cluster.resource.kind) and named["name"] in (None, document.name)
    }
    return is_reported(named["field"], [problem for problem in problems if _place(documents, problem) in places])


def _decodes(tree: Tree, cls: type[KubeObject]) -> bool:
    try:
        msgspec.convert(tree, cls)
    except msgspec.ValidationError:
        return False
    return True


def is_reported(field: str, known: Sequence[Problem]) -> bool:
    """True if a problem is known for a field, for one within it, or for one around it."""
    related = [problem.violation.field for problem in known if problem.violation.field]
    return any(is_within(field, other) or is_within(other, field) for other in related)


def is_part(field: str, others: Collection[str]) -> bool:
    """True if a field is a part of one of the others."""
    return any(other and field != other and is_within(field, other) for other in others)


def is_within(field: str, other: str) -> bool:
    """True if a field is another one, or a part of it."""
    return field == other or (field.startswith(other) and field[len(other)] in ".[")


def readable(document: Document) -> Tree | None:
    """A Cluster without the fields that its schema rejects, if it can't be decoded with them; None if it can't be
    decoded at all, or is not a Cluster."""
    parts = (document.tree.get("metadata"), document.tree.get("spec"))
    if document.kind != Cluster.resource.kind or not all(isinstance(part, dict) for part in parts):
        return None
    tree = copy.deepcopy(document.tree)
    if _decodes(tree, Cluster):
        return tree
    for violation in violations(Cluster, document.tree):
        _take_away(tree, violation.field)
    return tree if _decodes(tree, Cluster) else None


def _take_away(tree: Any, field: str) -> None:
    """A field, if it exists; for a list item, the whole list, so that other items keep their index."""
    _take_away_steps(tree, paths.parsed(field) or ())


def _take_away_steps(tree: Any, steps: Sequence[paths.PathStep]) -> None:
    while steps and isinstance(steps[-1], int):
        steps = steps[:-1]
    for step in steps[:-1]:
        try:
            tree = tree[step]
        except (LookupError, TypeError):
            return
    if steps and isinstance(tree, dict):
        tree.pop(steps[-1], None)


def cluster_of(documents: Sequence[Document]) -> Document:
    """The one Cluster among the documents; `read` has made sure that there is exactly one."""
    return next(document for document in documents if document.kind == Cluster.resource.kind)


def named_in(files: Sequence[str], connect: flags.Connection) -> tuple[str, flags.Connection]:
    """The name of the Cluster in a manifest, and the connection, in its namespace if it has one."""
    metadata = cluster_of(read(files)).tree.get("metadata") or {}
    return metadata["name"], replace(connect, namespace=metadata.get("namespace") or connect.namespace)


def in_namespace(documents: Sequence[Document], namespace: str) -> list[tuple[Resource, dict[str, Any]]]:
    """Resource and tree of each document, with the default namespace filled in. The Cluster comes last, so that its
    children exist when the controller first reconciles it."""
    prepared = []
    for document in documents:
        tree = document.tree
        resource = CATALOG.resource_of(document.api_version, document.kind)
        if resource.namespaced:
            tree["metadata"].setdefault("namespace", namespace)
        if resource == Cluster.resource and not isinstance(tree.get("spec"), dict):
            tree["spec"] = {}  # missing fields are reported one by one
        prepared.append((resource, tree))
    return sorted(prepared, key=lambda item: item[0] == Cluster.resource)


def linked(cluster: Tree, others: Sequence[Tree], providers: Providers) -> list[Tree]:
    """The objects of its manifest that a Cluster references, and those that these reference; all have a namespace."""
    named_objects = [other for other in others if _links(cluster, other)]
    reference = cluster["spec"].get("datacenterRef") or {}
    if (provider := providers.get(reference.get("kind") or "")) is None:
        return named_objects
    named = set()
    for child in named_objects:
        with suppress(msgspec.ValidationError):
            named |= {(link.resource.kind, link.name) for link in provider.links.further(Object(to_bytes(child)))}
    namespace = cluster["metadata"]["namespace"]
    further = [
        other for other in others if (other["kind"], other["metadata"]["name"]) in named and other not in named_objects
    ]
    return [*named_objects, *(other for other in further if other["metadata"].get("namespace") == namespace)]


def _links(cluster: Tree, other: Tree) -> bool:
    spec = cluster["spec"]
    machines = [spec.get("controlPlaneConfiguration"), spec.get("externalEtcdConfiguration")]
    machines += spec.get("workerNodeGroupConfigurations") or []
    references = [spec.get(field) or {} for field in ("datacenterRef", "gitOpsRef")]
    references += spec.get("identityProviderRefs") or []
    references += [(machine or {}).get("machineGroupRef") or {} for machine in machines]
    same = other["metadata"].get("namespace") == cluster["metadata"]["namespace"]
    named = [(reference.get("kind"), reference.get("name")) for reference in references]
    return same and (other["kind"], other["metadata"]["name"]) in named


async def apply_all(
    client: Client,
    prepared: Sequence[tuple[Resource, dict[str, Any]]],
    *,
    dry_run: bool,
    first: Callable[[], Awaitable[None]] | None = None,
) -> list[Object]:
    """Apply all or nothing, as far as that can be known: every object is tried on the server before one is written.

    `first` writes what these objects need, once all of them were taken. Warnings of the server are printed once: those
    of the write. It plans a Cluster on trial without the other objects, so its plan is printed only if these are
    unchanged.

    An API server tries no object in a namespace that does not exist, or of a kind that it does not serve. So Namespaces
    and CustomResourceDefinitions are written before the objects that need them are tried; in a dry run, these are not.

    The objects of an existing Cluster are written under a pause: see `command_pause`.
    """
    told: list[str] = []
    absent = await other_kinds.absent(client, prepared)
    with client.warning(told.append):
        tried = await _tried(client, prepared, absent, dry_run=dry_run)
    if dry_run:
        from espalier.clusters.effects import summary  # noqa: PLC0415  renders: not for those who only delete

        plans = [text for text in told if text.startswith(summary.SENTENCE)]
        if plans and not await _are_there(client, prepared, tried):
            told = [PLAN_INSTEAD, *(text for text in told if text not in plans)]
        if any(absent.needs(resource, tree) for resource, tree in prepared):
            told.append(f"what is {absent} was not tried on the server: it does not exist yet")
        for text in told:
            client.warn(text)
        return tried
    if first is not None:
        await first()
    cluster = await _to_pause(client, prepared, tried)
    if cluster is None:
        return [await _send(client, resource, tree, dry_run=False) for resource, tree in prepared]
    from espalier.cli.clusters import command_pause  # noqa: PLC0415  not for those who only create or scale

    applied = []
    async with command_pause.paused(client, cluster) as pause:
        for resource, tree in prepared:
            applied.append(await pause.write(_send(client, resource, tree, dry_run=False)))
    return applied


async def _tried(
    client: Client, prepared: Sequence[tuple[Resource, Tree]], absent: other_kinds.Absent, *, dry_run: bool
) -> list[Object]:
    """The objects as the server would store them, after those are written that are `absent`; in a dry run, those that
    need these as they are. Raises the errors of the server, after it printed which objects stay."""
    tried: dict[int, Object] = {}
    for at, (resource, tree) in enumerate(prepared):
        if not absent.needs(resource, tree):
            tried[at] = await _send(client, resource, tree, dry_run=True)
        elif dry_run:
            tried[at] = Object(to_bytes(tree))
    if len(tried) < len(prepared):
        created: list[str] = []
        try:
            for resource, tree in prepared:
                if absent.has(resource, tree):
                    await _send(client, resource, tree, dry_run=False)
                    created.append(f"{resource.kind} {tree['metadata']['name']}")
            await other_kinds.until_served(client, absent.kinds)
            for at, (resource, tree) in enumerate(prepared):
                if at not in tried:
                    tried[at] = await _send(client, resource, tree, dry_run=True)
        except (KubeError, Failure):
            if created:
                output.say_wrapped(f"created, and nothing else: {', '.join(created)}", stderr=True)
            raise
    return [tried[at] for at in range(len(prepared))]


async def _to_pause(client: Client, prepared: Sequence[tuple[Resource, Tree]], tried: Sequence[Object]) -> Key | None:
    """The existing Cluster that has to be paused while these objects are written; None if one write does it all.

    A new Cluster is written last, so nothing acts on the others before. A change of the Cluster alone needs no pause,
    unless an earlier command left one.
    """
    of_cluster = (
        object_ for (resource, _), object_ in zip(prepared, tried, strict=True) if resource == Cluster.resource
    )
    cluster = next(of_cluster, None)
    if cluster is None or (live := await _live(client, Cluster.resource, cluster)) is None:
        return None
    if names.is_paused_by_command(live.metadata.annotations):
        return live.key
    for (resource, _), wanted in zip(prepared, tried, strict=True):
        if resource != Cluster.resource:
            object_ = await _live(client, resource, wanted)
            if object_ is None or object_.tree.get("spec") != wanted.tree.get("spec"):
                return live.key
    return None


async def _live(client: Client, resource: Resource, wanted: Object) -> Object | None:
    try:
        return await client.get(resource, wanted.name, wanted.namespace or None)
    except (Forbidden, NotFound):
        return None


PLAN_INSTEAD = "`espalier plan -f FILE` says what this does: a dry run does not know the other objects of a manifest"


async def _are_there(client: Client, prepared: Sequence[tuple[Resource, Tree]], tried: Sequence[Object]) -> bool:
    """True if everything but the Cluster already existed with the requested content."""
    for (resource, _), wanted in zip(prepared, tried, strict=True):
        if resource == Cluster.resource:
            continue
        live = await _live(client, resource, wanted)
        if live is None or live.tree.get("spec") != wanted.tree.get("spec"):
            return False
    return True


async def _send(client: Client, resource: Resource, tree: dict[str, Any], *, dry_run: bool) -> Object:
    """Apply; but use a merge patch if `bundlesRef` must go, because an apply can't remove fields of other managers. So
    one write sets the release and removes the Bundles. Raises `Failure` for an object whose namespace is missing."""
    spec = tree.get("spec") or {}
    if resource != Cluster.resource or "bundlesRef" not in spec or spec["bundlesRef"] is not None:
        try:
            return await client.apply(resource, tree, dry_run=dry_run)
        except NotFound as error:
            details = error.status.details
            if resource != NAMESPACE and details is not None and details.kind == NAMESPACE.plural:
                raise Failure(other_kinds.namespace_needed(details.name)) from None
            raise
    name, namespace = tree["metadata"]["name"], tree["metadata"]["namespace"]
    return await client.patch(resource, name, namespace, patch=tree, type=PatchType.MERGE, dry_run=dry_run)
