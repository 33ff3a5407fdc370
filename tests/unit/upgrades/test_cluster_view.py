"""What is kept of a cluster that is followed."""

from __future__ import annotations

import pytest

from espalier.upgrades.cluster_view import kubeconfigs_alone
from tests.unit.upgrades.seen import made


@pytest.mark.parametrize(
    ("name", "is_kept"),
    [("garden-kubeconfig", True), ("garden-ca", False), ("garden-etcd", False), ("garden-x", False)],
)
def test_of_the_secrets_of_a_cluster_the_process_keeps_no_key_but_that_of_its_kubeconfig(
    name: str, is_kept: bool
) -> None:
    """Whoever reads its memory has what it needs, and no authority that makes more of it."""
    labels = {"cluster.x-k8s.io/cluster-name": "garden"}
    data = {"value": "YQ==", "tls.key": "Yg=="}
    kept = kubeconfigs_alone(
        made({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "labels": labels}, "data": data})
    )
    assert ("data" in kept.tree) is is_kept
