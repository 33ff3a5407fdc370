"""Writes of this process are no news to it; writes of others are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from espalier.api.meta import Tree
from espalier.kube.objects import Object
from espalier.runtime.controllers.own_writes import OwnWrites


def cluster(annotations: Mapping[str, Any] = {}, status: Mapping[str, Any] = {}, version: str = "1") -> Object:
    metadata = {"name": "garden", "namespace": "team-a", "resourceVersion": version, "annotations": annotations}
    body = {"apiVersion": "anywhere.eks.amazonaws.com/v1alpha1", "kind": "Cluster", "metadata": metadata}
    return Object(msgspec.json.encode(body | {"spec": {}, "status": status}))


@pytest.fixture
def own_writes() -> OwnWrites:
    own_writes = OwnWrites()
    own_writes.reports(cluster().key, {"phase": "Running"})
    own_writes.annotates(cluster().key, {"mark": "open"})
    return own_writes


OLD = cluster({"mark": "closed", "theirs": "1"}, {"phase": "Creating"})


@pytest.mark.parametrize(
    ("annotations", "status", "is_news"),
    [
        ({"mark": "closed", "theirs": "1"}, {"phase": "Running"}, False),
        ({"mark": "open", "theirs": "1"}, {"phase": "Creating"}, False),
        ({"mark": "open", "theirs": "1"}, {"phase": "Running"}, False),
        ({"mark": "closed", "theirs": "1"}, {"phase": "Failed"}, True),
        ({"mark": "closed", "theirs": "1"}, {}, True),
        ({"mark": "another", "theirs": "1"}, {"phase": "Running"}, True),
        ({"theirs": "1"}, {"phase": "Running"}, True),
        ({"mark": "open", "theirs": "2"}, {"phase": "Running"}, True),
        ({"mark": "open"}, {"phase": "Running"}, True),
    ],
)
def test_writes_of_others_alone_are_news(own_writes: OwnWrites, annotations: Tree, status: Tree, is_news: bool) -> None:
    assert own_writes.by_others(OLD, cluster(annotations, status, "2")) is is_news


def test_a_revert_to_our_earlier_write_is_noticed(own_writes: OwnWrites) -> None:
    own_writes.reports(OLD.key, {"phase": "Upgrading"})
    assert own_writes.by_others(cluster(status={"phase": "Upgrading"}), cluster(status={"phase": "Running"}))


def test_nothing_is_remembered_of_cluster_that_is_gone(own_writes: OwnWrites) -> None:
    assert own_writes.by_others(OLD, None)
    assert own_writes.by_others(OLD, cluster({"mark": "open", "theirs": "1"}, {"phase": "Running"}))
