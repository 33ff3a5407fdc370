"""Buckets of a garden in one process, as agents and extensions of seeds reach them."""

from __future__ import annotations

import pytest

from espalier.cli.local.environment.garden.buckets import Buckets
from espalier.cli.local.environment.seed_programs.agent import StoreConfig
from espalier.runtime.virtual import Simulation
from espalier.shoots.extension import OperationFailed
from espalier.simulator.connections import Link
from tests.support.environments.simulated_loop import simulate

BUCKET = "file:///of-east"


def test_folder_goes_with_its_epochs_and_nothing_else() -> None:
    async def story(simulation: Simulation) -> None:
        buckets, link = Buckets(simulation.clock), Link()
        open_store, managed = buckets.through(link), buckets.managed_through(link)
        for folder in ("apple/etcd-main/1", "apple/etcd-main/2", "apple-tree/etcd-main/1"):
            open_store(StoreConfig(f"{BUCKET}/{folder}", "", {"account": b"east"}))
        await managed.delete_folder(BUCKET, "apple", {})
        assert list(buckets.stores) == [f"{BUCKET}/apple-tree/etcd-main/1"]
        await managed.delete_bucket(BUCKET, {})
        assert not buckets.stores

    simulate(story)


def test_cut_network_deletes_nothing() -> None:
    async def story(simulation: Simulation) -> None:
        buckets, link = Buckets(simulation.clock), Link("the network to the bucket")
        buckets.through(link)(StoreConfig(BUCKET, "", {"account": b"east"}))
        link.cut()
        with pytest.raises(OperationFailed, match="no route to host"):
            await buckets.managed_through(link).delete_bucket(BUCKET, {})
        assert list(buckets.stores) == [BUCKET]

    simulate(story)
