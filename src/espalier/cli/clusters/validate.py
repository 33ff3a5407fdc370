"""`espalier validate`: what is wrong with a manifest, as far as that can be known without a management cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from espalier.api.meta import Tree
from espalier.api.text.listing import merged
from espalier.api.text.printable import in_one_line, quoted
from espalier.api.text.violations import Problem
from espalier.cli.clusters.manifests import documents, other_kinds
from espalier.cli.kit import flags
from espalier.cli.kit.commands import Command
from espalier.cli.kit.failures import Exit
from espalier.cli.kit.printing import output

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
    from espalier.cli.clusters.manifests import examination  # noqa: PLC0415  other commands need not load what judges

    documents_, problems, others = documents.examined(filename, several=True)
    examined = examination.alone(documents_, problems, releases, namespace)
    problems, later = examined.problems, examined.later
    warnings = [
        f"{document.source}:{document.line(note.field)}: {note.field}: {note.message}"
        for document in documents_
        for note in document.notes
    ]
    warnings += other_kinds.notes(others)
    warnings += examined.warnings
    if output_format:
        output.write_facts(_facts(problems, warnings, later), output_format)
        return Exit.REFUSED if problems else Exit.OK
    for text in merged(warnings):
        output.say_wrapped(f"Warning: {quoted(text, _LONGEST_WARNING)}", stderr=True)
    for problem in problems:
        output.error(in_one_line(str(problem)))
    if problems:
        return Exit.REFUSED
    for text in merged(later):
        output.say_wrapped(f"  not checked: {in_one_line(text)}")
    names = ", ".join(f"{document.kind} {document.tree['metadata']['name']}" for document in documents_)
    output.say_wrapped(f"✓ valid: {in_one_line(names)}")
    return Exit.OK


def _facts(problems: Sequence[Problem], warnings: Sequence[str], later: Sequence[str]) -> Tree:
    return {
        "valid": not problems,
        "problems": [msgspec.to_builtins(problem) for problem in problems],
        "warnings": list(warnings),
        "notChecked": list(later),
    }
