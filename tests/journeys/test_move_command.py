"""`espalier move` as it is called: what it prints, what it refuses, and where it begins."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from espalier.cli.clusters import move
from espalier.cli.kit import connection, flags
from espalier.cli.kit.failures import Failure
from tests.support.environments.environment import LocalEnvironment
from tests.support.environments.managed_environment import GARDEN, NAMESPACE, ManagedEnvironment
from tests.support.environments.two_management_clusters import between, objects

pytestmark = pytest.mark.embedded

TARGET = Path("target.kubeconfig")


def test_the_command_shows_a_move_and_makes_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def story(source: ManagedEnvironment, target: ManagedEnvironment) -> None:
        @asynccontextmanager
        async def connect(flag: flags.Connection) -> AsyncIterator[connection.Connected]:
            there = target if flag.kubeconfig == TARGET else source
            yield connection.Connected(there.client, NAMESPACE)

        monkeypatch.setattr(connection, "connect", connect)

        async def call(*, dry_run: bool = False, back: bool = False) -> tuple[str, str]:
            assert move.move.callback is not None
            given = {"to_kubeconfig": TARGET, "to_context": None, "names": ()}
            where = {"kubeconfig": None, "context": None, "namespace": None}
            await move.move.callback(**given, **where, back=back, dry_run=dry_run)
            told = capsys.readouterr()
            return told.out, told.err

        before = await objects(source)
        shown, _ = await call(dry_run=True)
        assert "would be moved" in shown
        assert "  machinedeployments.cluster.x-k8s.io eksa-system/garden-md-0" in shown
        assert await objects(target) == set()
        _, kept = await call(back=True)
        assert "is not being moved" in kept
        _, moved = await call()
        assert "cluster default/garden is moved" in moved
        assert (await objects(source), await objects(target)) == (set(), before)
        with pytest.raises(Failure, match="has no clusters that could be moved"):
            await call()
        assert target.clusters.get(GARDEN) is not None

    between(story)


def test_a_cluster_is_not_moved_to_where_it_is(env: LocalEnvironment) -> None:
    itself = str(env.home / "kubeconfig")
    told = env.espalier("move", "--to-kubeconfig", itself, "--cluster", "garden")
    assert (told.code, "the target is the source itself" in " ".join(told.err.split())) == (1, True)
    both = env.espalier("move", "--to-kubeconfig", itself, "--back", "--dry-run")
    assert (both.code, "omit it, or --back" in both.err) == (2, True)
