"""The real containerd reads the archives that we write, and what it unpacked can be cloned and served again."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from espalier.assets import MissingAssets, find_base, image_store
from espalier.assets.archive import Image, Layer, write_archive
from espalier.assets.cache import assets_folder, is_finished
from espalier.assets.recipes import CONTAINERD

pytestmark = pytest.mark.nodes


@pytest.fixture
def programs() -> Path:
    """The folder of the built containerd; without it, or without root, the test is skipped."""
    home = CONTAINERD.home(assets_folder())
    if os.geteuid() != 0 or not is_finished(home):
        pytest.skip("containerd unpacks images only as root, when espalier assets build containerd has built it")
    return home


def _listed(ctr: list[str | Path]) -> dict[str, str]:
    output = subprocess.run([*ctr, "images", "list"], check=True, capture_output=True, text=True).stdout
    return {line.split()[0]: line.split()[2] for line in output.splitlines()[1:]}


def test_containerd_has_images_under_given_digests(programs: Path, tmp_path: Path) -> None:
    (tmp_path / "hello").write_text("hello")
    shared = Layer({"usr/bin/hello": tmp_path / "hello", "bin": "usr/bin"}, {"tmp": 0o1777})
    own = Layer({"etc/own": tmp_path / "hello"})
    digests = write_archive(
        [
            Image(("example.org/one:v1", "registry.k8s.io/one:v1"), (shared,), ("/bin/hello",)),
            Image(("example.org/two:v1",), (shared, own), ("/bin/hello",), user="65535:65535"),
        ],
        tmp_path / "images.tar",
    )
    store = tmp_path / "store"
    store.mkdir()
    image_store.fill(store, tmp_path / "images.tar", programs, pinned=["example.org/two:v1"], label="test")
    with image_store.serving(store, programs) as ctr:
        assert _listed(ctr) == digests
        checked = subprocess.run([*ctr, "images", "check"], check=True, capture_output=True, text=True).stdout
        assert checked.count("complete (") == 3
        assert checked.count("true") == 3  # unpacked
        labels = subprocess.run([*ctr, "images", "list"], check=True, capture_output=True, text=True).stdout
        assert labels.count("io.cri-containerd.image=managed") == 3
        assert labels.count("io.cri-containerd.pinned=pinned") == 1
    assert [path.read_text() for path in store.rglob("fs/etc/own")] == ["hello"]


def test_nodes_have_identities_of_their_own(programs: Path, tmp_path: Path) -> None:
    (tmp_path / "hello").write_text("hello")
    write_archive([Image(("a.example/b:1",), (Layer({"hello": tmp_path / "hello"}),), ("/hello",))], tmp_path / "a.tar")
    store = tmp_path / "store"
    store.mkdir()
    image_store.fill(store, tmp_path / "a.tar", programs, label="test")
    assert (store / "io.containerd.metadata.v1.bolt/meta.db").exists()
    assert not (store / image_store.IDENTITY).exists()


def test_program_in_node_and_images_is_one_file(programs: Path, tmp_path: Path) -> None:
    for name in ("server", "other"):
        (tmp_path / name).write_text(f"{name:>20}")
        (tmp_path / name).chmod(0o755)
    layer = Layer({"bin/server": tmp_path / "server", "bin/other": tmp_path / "other"})
    write_archive([Image(("a.example/b:1",), (layer,), ("/bin/server",))], tmp_path / "a.tar")
    store = tmp_path / "store"
    store.mkdir()
    image_store.fill(store, tmp_path / "a.tar", programs, label="test")
    image_store.link_equals(store, [tmp_path / "server"])
    (server,), (other,) = store.rglob("fs/bin/server"), store.rglob("fs/bin/other")
    assert server.samefile(tmp_path / "server")
    assert not other.samefile(tmp_path / "other")
    assert sorted(path.name for path in server.parent.iterdir()) == ["other", "server"]
    with image_store.serving(store, programs) as ctr:
        checked = subprocess.run([*ctr, "images", "check"], check=True, capture_output=True, text=True).stdout
        assert "complete (" in checked


def test_clone_of_bases_store_serves_all_its_images(programs: Path, tmp_path: Path) -> None:
    try:
        base = find_base("1.35.4")
    except MissingAssets as missing:
        pytest.skip(str(missing))
    base.clone_store(tmp_path / "clone")
    with image_store.serving(tmp_path / "clone", programs) as ctr:
        assert _listed(ctr) == base.images
        checked = subprocess.run([*ctr, "images", "check"], check=True, capture_output=True, text=True).stdout
        assert checked.count("complete (") == len(base.images)
        assert "incomplete" not in checked
