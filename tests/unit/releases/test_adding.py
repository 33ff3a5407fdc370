"""The step of releasing that updates the manifest in the repository."""

from __future__ import annotations

import shutil
import tomllib
from datetime import UTC, datetime
from pathlib import Path

import pytest

import espalier.releases
from espalier.releases import MalformedRelease, Releases
from espalier.releases.adding import add, main

DATA = Path(espalier.releases.__file__).parent / "data"
MOMENT = datetime(2026, 11, 20, 12, tzinfo=UTC)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(DATA, tmp_path / "data"))


@pytest.mark.demand("V27")
def test_release_becomes_the_newest_entry(folder: Path) -> None:
    before = (folder / "releases.yaml").read_text()
    entry = add(folder, "v0.27.0", date=MOMENT, commit="c0ffee")
    after = (folder / "releases.yaml").read_text()
    assert after.replace(entry, "").replace("latestVersion: v0.27.0", "latestVersion: v0.26.0") == before
    newest = Releases.load(folder).newest()
    assert (newest.version, newest.name) == ("v0.27.0", "eksa-v0-27-0")
    assert newest.eksa_release.spec.git_commit == "c0ffee"
    assert newest.eksa_release.spec.date == "2026-11-20T12:00:00Z"
    assert newest.bundles == Releases.load(DATA).newest().bundles


def test_a_patch_of_an_earlier_minor_is_not_the_newest(folder: Path) -> None:
    add(folder, "v0.25.2", date=MOMENT, commit="c0ffee", bundles="bundles-2.yaml")
    there = Releases.load(folder)
    assert there.newest().version == "v0.26.0"
    assert there.release("v0.25.2").bundles.metadata.name == "bundles-2"


@pytest.mark.parametrize(
    ("version", "bundles", "error"),
    [
        ("v0.26.0", "", "v0.26.0 is released already"),
        ("0.27.0", "", "give one like v0.27.0"),
        ("v0.27.0", "bundles-9.yaml", "the file is missing in"),
    ],
)
def test_invalid_release_leaves_manifest_as_it_was(folder: Path, version: str, bundles: str, error: str) -> None:
    before = (folder / "releases.yaml").read_bytes()
    with pytest.raises((ValueError, MalformedRelease), match=error):
        add(folder, version, date=MOMENT, commit="c0ffee", bundles=bundles)
    assert (folder / "releases.yaml").read_bytes() == before


@pytest.mark.demand("V27")
def test_manifest_is_that_of_version_that_is_built() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    assert Releases.load(DATA).newest().version == f"v{project['version']}"


def test_the_latest_version_stays_for_an_earlier_one(folder: Path) -> None:
    add(folder, "v0.25.2", date=MOMENT, commit="c0ffee", bundles="bundles-2.yaml")
    assert "latestVersion: v0.26.0\n" in (folder / "releases.yaml").read_text()


@pytest.mark.parametrize("arguments", [[], ["v0.27.0", "bundles-1.yaml", "more"]])
def test_a_wrong_number_of_arguments_is_said(arguments: list[str]) -> None:
    with pytest.raises(SystemExit, match="give a version"):
        main(arguments)
