"""Commands that are stored: they are run after this version was replaced by another one."""

from __future__ import annotations

import sys
from pathlib import Path

from espalier.cli.local.images.upgrader_archives import built_images
from espalier.releases import Releases


def test_registry_imports_a_module_by_a_stable_name(tmp_path: Path) -> None:
    """Its settings outlive this process, and nodes ask it while no environment runs."""
    commands = {making.command[:3] for making in built_images(Releases.load(None), tmp_path).values()}
    assert commands == {(sys.executable, "-m", "espalier.cli.upgrader_archives")}
