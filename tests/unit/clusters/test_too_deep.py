"""A Cluster that no webhook saw may be nested without end: to the controller it is none, whatever it does with it."""

from __future__ import annotations

import msgspec
import pytest

from espalier.clusters.observe.scope import read
from espalier.kube.objects import Object

CLUSTER = (
    b'{"apiVersion":"anywhere.eks.amazonaws.com/v1alpha1","kind":"Cluster","metadata":{"name":"a","namespace":"b"},'
    b'"spec":{"workerNodeGroupConfigurations":[{"count":1,"kubeletConfiguration":%s}]}}'
)


@pytest.mark.parametrize("levels", [200, 900, 5_000])
def test_too_deep_cluster_is_no_cluster(levels: int) -> None:
    deep = b'{"a":' * levels + b"1" + b"}" * levels
    with pytest.raises(msgspec.ValidationError, match="levels deep"):
        read(Object(CLUSTER % deep))
    assert read(Object(CLUSTER % b"{}")).metadata.name == "a"
