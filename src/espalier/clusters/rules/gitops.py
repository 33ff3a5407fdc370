"""Rules about GitOps: the repository that contains a cluster's manifests."""

from __future__ import annotations

from collections.abc import Iterator

from espalier.api.eksa import cluster as eksa
from espalier.api.eksa import sentences
from espalier.api.eksa.cluster_rules import GIT_OPS_KINDS
from espalier.api.eksa.fields import Ref
from espalier.api.violations import Violation
from espalier.clusters.git_ops import FIELD
from espalier.clusters.rules import messages


def violations(
    old: eksa.Cluster | None, new: eksa.Cluster, management: eksa.Cluster | None, *, names_others: bool = True
) -> Iterator[Violation]:
    """A workload cluster's manifests are in its management cluster's repository, so both reference one configuration.

    An unchanged reference is not checked again. `management` is None when it is unknown, or for a self-managed cluster.
    With `names_others` the message names its configuration.
    """
    reference = new.spec.git_ops_ref
    if reference is None or (old is not None and old.spec.git_ops_ref == reference):
        return
    if reference.kind not in GIT_OPS_KINDS:
        allowed = " or ".join(GIT_OPS_KINDS)
        yield Violation(f"{FIELD}.kind", reference.kind, allowed, sentences.GIT_OPS_KIND)
        return
    theirs = management.spec.git_ops_ref if management is not None else reference
    if theirs != reference:
        yield Violation(
            FIELD,
            _text(reference),
            _text(theirs) if names_others or theirs is None else "",
            messages.GIT_OPS_OF_ITS_OWN,
        )


def _text(reference: Ref | None) -> str:
    return f"{reference.kind} {reference.name}" if reference is not None else "nothing"
