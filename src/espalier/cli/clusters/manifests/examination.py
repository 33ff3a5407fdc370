"""Everything that is wrong with a manifest, at once: what its schemas, the rules of CRDs and those of Clusters refuse.

The rules of Clusters need a management cluster: that of `offline.py` for `espalier validate`, the real one for commands
that send a manifest (`preflight.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from espalier.api.eksa.cluster import Cluster
from espalier.api.manifests import manifests
from espalier.api.manifests.manifests import Document
from espalier.api.manifests.schema import TOO_MANY
from espalier.api.text.violations import Problem
from espalier.cli.clusters.manifests import absent_objects, crd_rules, documents


class Examination(NamedTuple):
    """The result for a manifest."""

    problems: list[Problem]
    warnings: list[str]
    later: list[str]
    """Facts that are not checked here."""


def parts(documents_: Sequence[Document], problems: Sequence[Problem]) -> list[Document]:
    """The documents of which rules can say something, each object once; none where a list is too long, because what
    is made of it takes for ever.
    """
    if any(problem.violation.message == TOO_MANY for problem in problems):
        return []
    return manifests.first_of_each(documents.readable_parts(documents_) if problems else documents_)


def against_crds(
    documents_: Sequence[Document],
    problems: Sequence[Problem],
    live: crd_rules.Live = crd_rules.ALL_NEW,
) -> list[Problem]:
    """The refusals by rules of CRDs; none if nothing can judge them.

    Rules of CRDs are not evaluated where the schema rejects something: the rest of such an object is judged without it.
    """
    if not crd_rules.ASKED:
        return []
    rules = crd_rules.problems(documents_, problems, live)
    if problems:
        further = crd_rules.problems(documents.readable_parts(documents_, as_accepted=True), problems, live)
        rules += [rule for rule in further if not documents.is_beside(documents_, rule, problems)]
    return rules


def alone(
    documents_: Sequence[Document],
    problems: Sequence[Problem],
    releases: Path | None,
    namespace: str,
    *,
    is_complete: bool = True,
) -> Examination:
    """The examination without a management cluster. `problems` are known; unless the manifest `is_complete`, what it
    lacks may be in the management cluster.
    """
    from espalier.cli.clusters.manifests.offline import OfflineManager  # noqa: PLC0415  needed only without a management cluster
    from espalier.providers.registry import PROVIDERS  # noqa: PLC0415

    rules = against_crds(documents_, problems)
    is_refused = bool(problems or rules)
    is_too_long = any(rule.violation.message == TOO_MANY for rule in rules)
    readable = [] if is_too_long else parts(documents_, problems or rules)
    clusters = [document for document in readable if document.kind == Cluster.resource.kind]
    examined = []
    if clusters:
        given = absent_objects.given_by(documents_, namespace)
        manager = OfflineManager(PROVIDERS, readable, releases, namespace, given, is_complete=is_complete)
        examined = [manager.examined(cluster, is_refused=is_refused) for cluster in clusters]
    later = [] if crd_rules.ASKED else [crd_rules.NOT_ASKED]
    merged = documents.merged(
        documents_, problems, [*rules, *(problem for examination in examined for problem in examination.problems)]
    )
    warnings = dict.fromkeys(text for examination in examined for text in examination.warnings)
    return Examination(
        merged,
        [text for text in warnings if not documents.is_about_refused(documents_, text, merged)],
        [*later, *dict.fromkeys(text for examination in examined for text in examination.later)],
    )
