"""Who waits for a paused Cluster is told when the pause ends, and when the Cluster comes."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from espalier.clusterapi.names import PAUSED
from espalier.clusterapi.objects import pause_changed
from espalier.kube.objects import Object


def cluster(paused: bool | None = None, annotations: Mapping[str, str] = {}) -> Object:
    spec = {} if paused is None else {"paused": paused}
    metadata = {"name": "garden", "namespace": "eksa-system", "annotations": annotations}
    body = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": metadata, "spec": spec}
    return Object(msgspec.json.encode(body))


@pytest.mark.parametrize(
    ("old", "new", "is_reported"),
    [
        (None, cluster(), True),
        (cluster(), None, True),
        (cluster(), cluster(), False),
        (cluster(), cluster(False), False),
        (cluster(True), cluster(), True),
        (cluster(True), cluster(False), True),
        (cluster(), cluster(annotations={PAUSED: ""}), True),
        (cluster(True), cluster(True, {PAUSED: ""}), False),
    ],
)
def test_pauses_cover_creation_and_deletion(old: Object | None, new: Object | None, is_reported: bool) -> None:
    assert pause_changed(old, new) is is_reported
