"""The lease in a shoot's Cluster, whatever stands there."""

from __future__ import annotations

import pytest

from espalier.api.gardener.extensions.cluster import Cluster
from espalier.kube.objects import Object, encode_json
from espalier.shoots.gardenlet import clusters

VALIDITY = 120.0
LEASE = "2026-01-01T00:02:00.000000Z"


def cluster(expiration: str) -> Object:
    kind = {"apiVersion": Cluster.resource.api_version, "kind": "Cluster", "metadata": {"name": "a"}}
    return Object(encode_json(kind | {"spec": {"leaseExpiration": expiration}}))


@pytest.mark.parametrize(
    ("present", "is_recent"),
    [
        ("2026-01-01T00:01:58.000000Z", True),
        ("2026-01-01T00:02:00.000000Z", True),
        ("2026-01-01T00:01:50.000000Z", False),
        ("2026-01-01T00:02:01.000000Z", False),
        ("", False),
        ("soon", False),
    ],
)
def test_a_lease_that_is_none_is_renewed(present: str, *, is_recent: bool) -> None:
    """As is one that is older than a moment, or ends later than it may."""
    assert clusters._was_just_renewed(cluster(present), LEASE, VALIDITY) is is_recent
