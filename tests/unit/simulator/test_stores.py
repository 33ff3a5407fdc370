"""The identity of simulated machines: the same after a restart, another one for other folders."""

from __future__ import annotations

from pathlib import Path

from espalier.simulator.workload_clusters.stores import FolderStores


def test_an_identity_stays_with_its_folder(tmp_path: Path) -> None:
    first = FolderStores(tmp_path / "first").identity()
    assert first
    assert FolderStores(tmp_path / "first").identity() == first
    assert FolderStores(tmp_path / "second").identity() != first
    assert FolderStores(tmp_path / "first").clusters("eksa-system") == []
