"""Etcds that can't be run are refused by the API server of a seed, which needs no webhook for that."""

from __future__ import annotations

from typing import Any

import pytest

from espalier.api.core import CUSTOM_RESOURCE_DEFINITION
from espalier.api.definitions.crd import crd_of
from espalier.api.gardener.etcd import Etcd
from espalier.kube.client import Client
from espalier.kube.errors import Invalid
from tests.support.servers.widgets import served

pytestmark = pytest.mark.often("in_memory", "real")  # what is judged before it is stored is the same for all stores

STORE = {"container": "backups", "prefix": "shoot--dev--apple/etcd-main/2", "provider": "aws"}
SOURCE = {**STORE, "prefix": "shoot--dev--apple/etcd-main/1"}
SAME = {**STORE, "secretRef": {"name": "other"}}


@pytest.fixture
async def seed(client: Client, namespace: str) -> str:
    """A namespace of a server that has the definition, and no controller."""
    await client.apply(CUSTOM_RESOURCE_DEFINITION, crd_of(Etcd), force=True)
    await served(client, Etcd.resource)
    return namespace


async def create(client: Client, namespace: str, replicas: int = 1, **backup: Any) -> None:
    spec = {"replicas": replicas, "backup": backup}
    await client.create(Etcd.resource, {"metadata": {"name": "etcd-main", "namespace": namespace}, "spec": spec})


@pytest.mark.parametrize(
    ("replicas", "backup"), [(1, {"store": STORE}), (0, {"store": STORE}), (1, {"store": STORE, "sourceStore": SOURCE})]
)
async def test_single_member_and_copy_to_prefix_are_allowed(
    client: Client, seed: str, replicas: int, backup: dict[str, Any]
) -> None:
    await create(client, seed, replicas, **backup)


@pytest.mark.demand("G49")
@pytest.mark.parametrize(
    ("replicas", "backup", "message"),
    [
        (2, {"store": STORE}, r"spec.replicas: .*an etcd has one member.*found 2; allowed: 0, 1 or 3"),
        (1, {"sourceStore": SOURCE}, r"spec.backup.store: .*needs spec.backup.store, the destination"),
        (
            1,
            {"store": STORE, "sourceStore": {**STORE, "secretRef": {"name": "other"}}},
            r"spec.backup.sourceStore: .*same",
        ),
        (1, {"store": {"container": "c"}, "sourceStore": {"container": "c"}}, r"spec.backup.sourceStore: .*same"),
    ],
)
async def test_unusable_etcd_is_refused_with_the_field(
    client: Client, seed: str, replicas: int, backup: dict[str, Any], message: str
) -> None:
    with pytest.raises(Invalid, match=message):
        await create(client, seed, replicas, **backup)
