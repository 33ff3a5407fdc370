"""Rules about GitOps: the repository that contains a cluster's manifests."""

from __future__ import annotations

from collections.abc import Iterator

from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.parts.cluster_rules import GIT_OPS_KINDS
from espalier.api.eksa.parts.fields import Ref
from espalier.api.eksa.vocabulary import sentences
from espalier.api.text.violations import Violation
from espalier.clusters.observe.git_ops import FIELD, Other
from espalier.clusters.observe.rules import messages


def violations(
    old: eksa.Cluster | None,
    new: eksa.Cluster,
    management: eksa.Cluster | None,
    other: Other | None = None,
    *,
    names_others: bool = True,
) -> Iterator[Violation]:
    """A workload cluster's manifests are in its management cluster's repository, so both reference one configuration,
    or two with the same content; `other` says in which fields these differ, once both exist.

    An unchanged reference is not checked again. `management` is None when it is unknown, or for a self-managed cluster.
    With `names_others` the message names its configuration; it never has its content.
    """
    reference = new.spec.git_ops_ref
    if reference is None or (old is not None and old.spec.git_ops_ref == reference):
        return
    if reference.kind not in GIT_OPS_KINDS:
        allowed = " or ".join(GIT_OPS_KINDS)
        yield Violation(f"{FIELD}.kind", reference.kind, allowed, sentences.GIT_OPS_KIND)
        return
    if management is None:
        return
    theirs = management.spec.git_ops_ref
    if theirs is None:
        yield Violation(FIELD, _text(reference), "nothing", messages.GIT_OPS_OF_ITS_OWN)
    elif other is not None:
        allowed = f"{other.kind} {other.name}" if names_others else ""
        message = messages.git_ops_with_other_content(reference.kind, reference.name, other.fields)
        yield Violation(FIELD, _text(reference), allowed, message)


def _text(reference: Ref) -> str:
    return f"{reference.kind} {reference.name}"
