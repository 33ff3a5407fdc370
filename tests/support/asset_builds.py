"""Assets as they lie in the cache, made in no time: for tests of what finds, lists and shares them."""

from __future__ import annotations

import json
from pathlib import Path

from espalier.assets.base import DEFAULT_REPOSITORY, FACTS
from espalier.assets.cache import seal
from espalier.assets.component import Component
from espalier.assets.recipes import node_bases


def make_base(assets: Path, version: str, repository: str = DEFAULT_REPOSITORY) -> Path:
    """A base with the layout of real ones: a program, an image's blob, an unpacked layer and a database."""
    recipe = next(base for base in node_bases(repository) if base.version == version)
    home, root = recipe.home(assets), recipe.root.home(assets)
    if not root.is_dir():
        (root / "rootfs/etc").mkdir(parents=True)
        (root / "rootfs/etc/os-release").write_text("Debian")
        seal(root)
    (home / "system/usr/local/bin").mkdir(parents=True)
    (home / "system/usr/local/bin/kubernetes").write_text(version)
    (home / "system/usr/local/bin/kubeadm").symlink_to("kubernetes")
    store = home / "containerd"
    for folder in ("content/blobs/sha256", "snapshots/1/fs/usr/bin", "snapshots/1/work", "metadata"):
        (store / folder).mkdir(parents=True)
    (store / "content/blobs/sha256/abc").write_text("a layer")
    (store / "snapshots/1/fs/usr/bin/server").write_text("a program")
    (store / "snapshots/1/fs/usr/bin/client").symlink_to("server")
    (store / "metadata/meta.db").write_text("a database")
    facts = {
        "version": version,
        "repository": repository,
        "root": root.name,
        "images": {f"{repository}/pause:3": "sha256:1"},
    }
    (home / FACTS).write_text(json.dumps(facts))
    seal(home)
    return home


def make_component(component: Component, assets: Path) -> Path:
    """The folder of a finished component, with nothing of value in it."""
    home = component.home(assets)
    home.mkdir(parents=True)
    (home / "program.bin").write_text(component.label)
    seal(home)
    return home
