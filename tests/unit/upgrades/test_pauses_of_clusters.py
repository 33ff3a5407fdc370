"""Changes of a Cluster that wake the upgrades of its objects."""

from __future__ import annotations

import pytest

from espalier.api.eksa.vocabulary.group import PAUSED_ANNOTATION
from espalier.kube.objects import Object
from espalier.upgrades.observed.observe import _pause_changed
from tests.support.objects.observed_upgrades import made


def cluster(*annotations: str) -> Object:
    return made({"kind": "Cluster", "metadata": {"name": "garden", "annotations": dict.fromkeys(annotations, "true")}})


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        (cluster(), cluster(PAUSED_ANNOTATION), True),
        (cluster(PAUSED_ANNOTATION), cluster(), True),
        (cluster(PAUSED_ANNOTATION), cluster(PAUSED_ANNOTATION, "other"), False),
        (cluster(), cluster("other"), False),
        (None, cluster(PAUSED_ANNOTATION), True),
        (None, cluster(), False),
        (cluster(PAUSED_ANNOTATION), None, True),
        (cluster(), None, False),
    ],
)
def test_upgrades_wake_when_a_cluster_is_paused_or_not(old: Object | None, new: Object | None, changed: bool) -> None:
    assert _pause_changed(old, new) is changed
