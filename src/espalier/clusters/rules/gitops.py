"""Rules about GitOps: which repository a cluster is described in."""

from __future__ import annotations

from collections.abc import Iterator

from espalier.api.eksa import cluster as eksa
from espalier.api.eksa import sentences
from espalier.api.eksa.cluster_rules import GIT_OPS_KINDS
from espalier.api.eksa.fields import Ref
from espalier.api.violations import Violation
from espalier.clusters.rules import messages

_FIELD = "spec.gitOpsRef"


def violations(
    old: eksa.Cluster | None, new: eksa.Cluster, management: eksa.Cluster | None, *, is_told: bool = True
) -> Iterator[Violation]:
    """A workload cluster is described beside its management cluster, so both name one configuration.

    A reference that stays is not judged again. `management` is None when it is not known, or for a cluster that manages
    itself. Its configuration is named where that `is_told`.
    """
    reference = new.spec.git_ops_ref
    if reference is None or (old is not None and old.spec.git_ops_ref == reference):
        return
    if reference.kind not in GIT_OPS_KINDS:
        allowed = " or ".join(GIT_OPS_KINDS)
        yield Violation(f"{_FIELD}.kind", reference.kind, allowed, sentences.GIT_OPS_KIND)
        return
    theirs = management.spec.git_ops_ref if management is not None else reference
    if theirs != reference:
        yield Violation(
            _FIELD, _text(reference), _text(theirs) if is_told or theirs is None else "", messages.GIT_OPS_OF_ITS_OWN
        )


def _text(reference: Ref | None) -> str:
    return f"{reference.kind} {reference.name}" if reference is not None else "nothing"
