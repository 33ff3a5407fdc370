"""`espalier validate`: what is wrong with a manifest, as far as that can be known without a management cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from espalier.api import manifests
from espalier.api.eksa.cluster import Cluster
from espalier.api.manifests import Document
from espalier.api.meta import Tree
from espalier.api.printable import in_one_line, quoted
from espalier.api.schema import TOO_MANY
from espalier.api.violations import Problem
from espalier.cli import documents, flags, other_kinds, output
from espalier.cli.commands import Command
from espalier.cli.failures import Exit

_LONGEST_WARNING = 2000


@click.command(cls=Command)
@flags.filename(
    required=True, help="Manifest of one or several clusters, or a folder; - for standard input. Repeatable."
)
@flags.releases
@flags.default_namespace
@flags.output()
def validate(*, filename: Sequence[str], releases: Path | None, namespace: str, output_format: str) -> int:
    """Check a manifest without a cluster: schemas, admission rules, and references between its objects.

    Lists what it can't check without a management cluster or a provider's API.

    \b
    Example:
      espalier validate -f examples/docker.yaml
    """
    from espalier.cli.offline import Examined, OfflineManager  # noqa: PLC0415  other commands need not load what judges
    from espalier.providers.registry import PROVIDERS  # noqa: PLC0415

    found, problems, others = documents.examined(filename, several=True)
    rules, later = _against_crds(found, problems)
    examined: list[Examined] = []
    is_refused = bool(problems or rules)
    is_too_long = any(one.violation.message == TOO_MANY for one in problems)  # which may take for ever to be rendered
    readable = [] if is_too_long else documents.readable_parts(found) if is_refused else found
    if problems and readable:  # rules of CRDs are not evaluated where the schema rejects something
        further = _against_crds(documents.readable_parts(found, as_accepted=True), problems)[0]
        rules = [*rules, *(one for one in further if not documents.is_beside(found, one, problems))]
    readable = manifests.first_of_each(readable)  # an error already: the second is no change of the first
    clusters = [one for one in readable if one.kind == Cluster.resource.kind]
    if clusters:
        given = [f"{one.kind} {one.name}" for one in found]
        offline_manager = OfflineManager(PROVIDERS, readable, releases, namespace, given)
        examined = [offline_manager.examined(one, is_refused=is_refused) for one in clusters]
    more = [problem for one in examined for problem in one.problems]
    problems = documents.merged(found, problems, [*rules, *more])
    warnings = [
        f"{one.source}:{one.line(note.field)}: {note.field}: {note.message}" for one in found for note in one.notes
    ]
    warnings += other_kinds.notes(others)
    warnings += list(dict.fromkeys(text for one in examined for text in one.warnings))
    later += list(dict.fromkeys(text for one in examined for text in one.later))
    if output_format:
        output.write_facts(_facts(problems, warnings, later), output_format)
        return Exit.REFUSED if problems else Exit.OK
    for text in warnings:
        output.say(f"Warning: {quoted(text, _LONGEST_WARNING)}", stderr=True)
    for problem in problems:
        output.error(in_one_line(str(problem)))
    if problems:
        return Exit.REFUSED
    for text in later:
        output.say(f"  not checked: {in_one_line(text)}")
    names = ", ".join(f"{one.kind} {one.tree['metadata']['name']}" for one in found)
    output.say(f"✓ valid: {in_one_line(names)}")
    return Exit.OK


def _against_crds(found: Sequence[Document], known: Sequence[Problem]) -> tuple[list[Problem], list[str]]:
    """The refusals by rules of CRDs; or that nobody asked them, for they need the embedded API server."""
    from espalier.cli import crd_rules  # noqa: PLC0415  other commands need not load what judges

    return (crd_rules.problems(found, known), []) if crd_rules.ASKED else ([], [crd_rules.NOT_ASKED])


def _facts(problems: Sequence[Problem], warnings: Sequence[str], later: Sequence[str]) -> Tree:
    return {
        "valid": not problems,
        "problems": [msgspec.to_builtins(one) for one in problems],
        "warnings": list(warnings),
        "notChecked": list(later),
    }
