"""The file system from which a real node starts: found by version, missing with a sentence, images cloned per node."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from espalier.assets import MissingAssets, find_base
from espalier.assets import base as base_module
from espalier.assets.base import find_bases
from espalier.assets.cache import SUMS
from tests.support.asset_builds import make_base


def test_base_is_found_by_any_spelling_of_its_version(tmp_path: Path) -> None:
    home = make_base(tmp_path, "1.35.4")
    make_base(tmp_path, "1.36.3")
    base = find_base("v1.35.4", assets=tmp_path)
    assert base == find_base("1.35.4", assets=tmp_path)
    assert base.version == "1.35.4"
    assert base.lower == f"{home}/system:{base.root}"
    assert (base.root / "etc/os-release").read_text() == "Debian"
    assert base.kubeadm.read_text() == "1.35.4"
    assert base.images == {"registry.k8s.io/pause:3": "sha256:1"}


def test_missing_base_is_reported_with_its_command(tmp_path: Path) -> None:
    with pytest.raises(MissingAssets, match=r"there is none\): run `espalier assets build node-base-1.35.4`$"):
        find_base("1.35.4", assets=tmp_path)
    make_base(tmp_path, "1.36.3")
    make_base(tmp_path, "1.34.4")
    with pytest.raises(MissingAssets, match=r"Kubernetes 1.35.4 .* \(there is 1.34.4, 1.36.3\)"):
        find_base("1.35.4", assets=tmp_path)


def test_other_image_repository_is_another_base(tmp_path: Path) -> None:
    make_base(tmp_path, "1.35.4")
    with pytest.raises(MissingAssets, match=r"--image-repository public.ecr.aws/eks-distro`$"):
        find_base("1.35.4", repository="public.ecr.aws/eks-distro", assets=tmp_path)
    make_base(tmp_path, "1.35.4", "public.ecr.aws/eks-distro")
    theirs = find_base("1.35.4", repository="public.ecr.aws/eks-distro", assets=tmp_path)
    assert list(theirs.images) == ["public.ecr.aws/eks-distro/pause:3"]
    assert find_base("1.35.4", assets=tmp_path).home != theirs.home


@pytest.mark.parametrize("which", ["node-base", "node-root"])
def test_an_unfinished_folder_is_no_base(tmp_path: Path, which: str) -> None:
    make_base(tmp_path, "1.35.4")
    next(tmp_path.glob(f"{which}-*/{SUMS}")).unlink()
    assert find_bases(assets=tmp_path) == []


def test_clones_of_a_store_share_blobs_but_no_database(tmp_path: Path) -> None:
    make_base(tmp_path, "1.35.4")
    base = find_base("1.35.4", assets=tmp_path)
    clone = tmp_path / "node" / "containerd"
    clone.parent.mkdir()
    base.clone_store(clone)
    assert _tree(clone) == _tree(base.store)
    (clone / "metadata/meta.db").write_text("of this node")
    (clone / "content/blobs/sha256/abc").unlink()
    assert (base.store / "metadata/meta.db").read_text() == "a database"
    assert (base.store / "content/blobs/sha256/abc").read_text() == "a layer"
    assert [path.name for path in clone.parent.iterdir()] == ["containerd"]


def test_files_are_linked_where_cloning_is_impossible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_base(tmp_path, "1.35.4")
    base = find_base("1.35.4", assets=tmp_path)
    monkeypatch.setattr(base_module, "_sharing", lambda _source, _folder: "link")
    base.clone_store(tmp_path / "clone")
    server = "snapshots/1/fs/usr/bin/server"
    assert (tmp_path / "clone" / server).samefile(base.store / server)
    assert not (tmp_path / "clone/metadata/meta.db").samefile(base.store / "metadata/meta.db")


def test_files_are_copied_to_another_file_system(tmp_path: Path) -> None:
    elsewhere = Path("/dev/shm")
    if not elsewhere.is_dir() or elsewhere.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("this machine has no second file system to write to")
    make_base(tmp_path, "1.35.4")
    base = find_base("1.35.4", assets=tmp_path)
    clone = elsewhere / f"espalier-test-{os.getpid()}"
    try:
        base.clone_store(clone)
        assert _tree(clone) == _tree(base.store)
    finally:
        shutil.rmtree(clone, ignore_errors=True)


def _tree(folder: Path) -> dict[str, str]:
    paths = sorted(folder.rglob("*"))
    return {
        str(path.relative_to(folder)): f"-> {path.readlink()}" if path.is_symlink() else path.read_text()
        for path in paths
        if path.is_symlink() or path.is_file()
    } | {str(path.relative_to(folder)): "folder" for path in paths if path.is_dir()}
