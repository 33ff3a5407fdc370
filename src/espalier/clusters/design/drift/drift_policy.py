"""The annotation with which users choose how drift is handled."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from espalier.api.eksa.vocabulary import metadata_keys


class Policy(StrEnum):
    """How drift is handled: the value of `metadata_keys.DRIFT_ANNOTATION`."""

    REPORT = "report"
    """Drift is reported only; the default without the annotation."""
    CORRECT = "correct"
    """Drift is corrected, except where the correction replaces machines."""
    CORRECT_MACHINES = "correct-machines"
    """All drift is corrected."""


def policy(annotations: Mapping[str, str]) -> Policy | None:
    """The policy of a Cluster with these annotations; None when the value is unknown."""
    try:
        return Policy(annotations.get(metadata_keys.DRIFT_ANNOTATION, Policy.REPORT))
    except ValueError:
        return None
