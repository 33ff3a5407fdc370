"""The view that is kept of a followed cluster."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from espalier.api.core import NODE
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.resource import Key
from espalier.clusterapi import kubeconfig
from espalier.kube.client import Client
from espalier.kube.errors import Unreachable
from espalier.runtime import virtual
from espalier.runtime.caches.cache import Caches
from espalier.runtime.caches.transforms import metadata_unless
from espalier.upgrades.observed.cluster_tracker import _RunningCaches
from espalier.upgrades.observed.cluster_view import ClusterView
from tests.support.objects.observed_upgrades import made


@pytest.mark.parametrize(
    ("name", "is_kept"),
    [("garden-kubeconfig", True), ("garden-ca", False), ("garden-etcd", False), ("garden-x", False)],
)
def test_process_keeps_the_key_of_the_kubeconfig_only(name: str, is_kept: bool) -> None:
    """Whoever reads its memory has what it needs, and no authority that makes more of it."""
    labels = {"cluster.x-k8s.io/cluster-name": "garden"}
    data = {"value": "YQ==", "tls.key": "Yg=="}
    cached = metadata_unless(kubeconfig.cluster_of)(
        made({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "labels": labels}, "data": data})
    )
    assert ("data" in cached.tree) is is_kept


@pytest.mark.parametrize(
    ("content", "reason", "message"),
    [
        (None, Reason.KUBECONFIG_MISSING, "waiting for Secret eksa-system/garden-kubeconfig with the kubeconfig"),
        (b"x", Reason.WORKLOAD_CLUSTER_UNREACHABLE, "waiting for the API server of workload cluster garden to answer"),
    ],
)
def test_an_unreachable_cluster_says_what_is_missing(content: bytes | None, reason: Reason, message: str) -> None:
    secret = Key("eksa-system", "garden-kubeconfig")
    capi_objects: Any = SimpleNamespace(cluster="garden", kubeconfig=content, kubeconfig_secret=secret)

    wait = ClusterView(capi_objects, None).unreachable

    assert wait.reason == reason
    assert wait.message.startswith(message)


class Silent:
    """A server that does not answer, or can't be reached."""

    def __init__(self, *, refuses: bool) -> None:
        self._refuses = refuses

    async def request(self, _request: Any) -> Any:
        if self._refuses:
            raise Unreachable("the connection was refused", sent=False)
        await asyncio.get_running_loop().create_future()

    async def stream(self, request: Any) -> Any:
        return await self.request(request)

    async def close(self) -> None:
        pass


@pytest.mark.parametrize(("refuses", "seconds"), [(False, 30.0), (True, 1.0)])
def test_silent_cluster_is_read_for_half_a_minute(refuses: bool, seconds: float) -> None:
    async def main(_simulation: virtual.Simulation) -> None:
        transport: Any = Silent(refuses=refuses)
        caches = Caches(Client(transport), rng=random.Random(1))
        caches.of(NODE)
        side = _RunningCaches(caches, asyncio.get_running_loop().time())
        running = asyncio.ensure_future(caches.run())
        assert side.is_being_read
        await asyncio.sleep(seconds)
        assert not side.is_being_read
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    virtual.run(main, epoch=datetime(2026, 1, 1, tzinfo=UTC), seed=1)
