"""`espalier assets list|prune`: what is built, what is outdated, and what is removed after it was said."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from espalier.assets import inventory
from espalier.assets.cache import is_intact, seal
from espalier.assets.inventory import State
from espalier.assets.recipes import ETCD, KUBERNETES, chosen, everything
from tests.support.asset_builds import make_base, make_component


def _outdated(assets: Path, name: str) -> Path:
    home = assets / name
    home.mkdir(parents=True)
    (home / "program.bin").write_bytes(b"x" * 5000)
    seal(home)
    return home


def _states(assets: Path) -> dict[str, State]:
    return {f"{item.name}-{item.version}": item.state for item in inventory.inventory(assets)}


def test_components_are_listed_built_or_not(tmp_path: Path) -> None:
    make_component(ETCD, tmp_path)
    states = _states(tmp_path)
    assert states.pop(ETCD.key) is State.BUILT
    assert set(states.values()) == {State.MISSING}
    assert {component.key for component in everything()} == {*states, ETCD.key}


def test_an_empty_cache_has_nothing_to_prune(tmp_path: Path) -> None:
    lines: list[str] = []
    assert inventory.prune(tmp_path / "nowhere", lines.append, dry_run=False) == []
    assert lines == []
    assert not (tmp_path / "nowhere").exists()


def test_assets_without_a_recipe_are_removed(tmp_path: Path) -> None:
    current = [
        make_component(ETCD, tmp_path),
        make_base(tmp_path, "1.35.4"),
        make_base(tmp_path, "1.35.4", "example.org"),
    ]
    old = _outdated(tmp_path, "etcd-3.4.0-0123456789ab")
    (tmp_path / "envtest-1.20.0").mkdir()
    (tmp_path / f"envtest-{KUBERNETES.version}").mkdir()
    foreign = tmp_path / "somebody-elses"
    foreign.mkdir()
    left_behind = tmp_path / ".unfinished-etcd-xyz"
    left_behind.mkdir()

    lines: list[str] = []
    inventory.prune(tmp_path, lines.append, dry_run=True)
    assert lines == [f"{tmp_path}/envtest-1.20.0: would be removed", f"{old}: would be removed"]
    assert old.is_dir()
    assert left_behind.is_dir()

    lines.clear()
    removed = inventory.prune(tmp_path, lines.append, dry_run=False)
    assert lines == [f"{tmp_path}/envtest-1.20.0: is removed", f"{old}: is removed"]
    assert [item.name for item in removed] == ["envtest", "etcd"]
    assert removed[1].size >= 5000
    gone = (old, left_behind, tmp_path / "envtest-1.20.0")
    assert not any(path.exists() for path in gone)
    assert all(path.is_dir() for path in (*current, foreign, tmp_path / f"envtest-{KUBERNETES.version}"))
    assert inventory.outdated(tmp_path) == []


def test_no_component_with_a_recipe_is_removed(tmp_path: Path) -> None:
    for component in everything():
        make_component(component, tmp_path)
    assert inventory.prune(tmp_path, lambda _line: None, dry_run=True) == []


def test_a_base_that_a_node_is_mounted_from_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = _outdated(tmp_path, "node-base-1.33.0-0123456789ab")
    mount = f"60 24 0:55 / /nodes/a rw - overlay overlay rw,lowerdir={old}/system:/other,upperdir=/u,workdir=/w"
    monkeypatch.setattr(inventory, "_mounted", lambda: [mount])
    lines: list[str] = []
    inventory.prune(tmp_path, lines.append, dry_run=False)
    assert lines == [f"{old}: is in use and stays"]
    assert old.is_dir()


def test_other_repository_reuses_the_same_programs(tmp_path: Path) -> None:
    ours, theirs = chosen(["node-base-1.35.4"]), chosen(["node-base-1.35.4"], "public.ecr.aws/eks-distro")
    assert [component.home(tmp_path) for component in ours[:-1]] == [
        component.home(tmp_path) for component in theirs[:-1]
    ]
    assert ours[-1].home(tmp_path) != theirs[-1].home(tmp_path)


def test_unreadable_assets_are_not_built_again() -> None:
    with tempfile.TemporaryDirectory() as folder:  # where every user can look
        Path(folder).chmod(0o755)
        home = make_component(ETCD, Path(folder))
        (home / "program.bin").chmod(0)
        with _as_nobody():
            with pytest.raises(PermissionError):
                (home / "program.bin").read_bytes()
            assert is_intact(home)


@contextlib.contextmanager
def _as_nobody() -> Iterator[None]:
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(before)
