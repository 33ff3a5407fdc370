"""References of a Cluster to objects that do not exist, as commands report them before anything is sent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from espalier.api.text.violations import Violation
from espalier.cli.clusters.manifests import documents
from espalier.clusters.observe.references import Missing


def violations(
    missing: Iterable[Missing], *, given: Sequence[str] = (), refused: Sequence[str] = ()
) -> list[Violation]:
    """A violation for each field that names an object that does not exist.

    Left out are Secrets with credentials, the `given` objects of the manifest (as `Kind name`) of which nothing can be
    made, and references that are `refused` themselves, by field.
    """
    named = {
        reference.field: reference.what
        for reference in missing
        if not reference.is_credentials and not _is_given(reference, given)
    }
    return [
        Violation(field, "", "", f"names {what}; add it to the manifest")
        for field, what in named.items()
        if not any(documents.is_within(other, field) for other in refused)
    ]


def _is_given(missing: Missing, given: Sequence[str]) -> bool:
    return any(missing.what.startswith(f"{name} ") for name in given)
