"""`make dist`: notes, charts, digests and sums of a release. The image itself is built in journeys."""

from __future__ import annotations

import importlib.util
import subprocess
import tarfile
import tempfile
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.objects.image_archives import small_archive

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def dist() -> ModuleType:
    specification = importlib.util.spec_from_file_location("dist", ROOT / "packaging/dist.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


CHANGELOG = "# Changelog\n\n## Unreleased (0.26.0)\n\nNew.\n\n### Parts\n\n- one\n\n## 0.25.0\n\nOld.\n"


def test_notes_are_the_section_of_the_version(dist: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    assert dist.notes(tmp_path / "CHANGELOG.md", "0.26.0") == "# Espalier 0.26.0\n\nNew.\n\n### Parts\n\n- one\n"
    assert dist.notes(tmp_path / "CHANGELOG.md", "0.25.0") == "# Espalier 0.25.0\n\nOld.\n"


@pytest.mark.parametrize("version", ["0.26", "0.26.01", "10.26.0", "0x26.0"])
def test_version_without_a_section_is_refused(dist: ModuleType, tmp_path: Path, version: str) -> None:
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    with pytest.raises(dist.Unreleasable, match="found: Unreleased"):
        dist.notes(tmp_path / "CHANGELOG.md", version)


def test_this_checkout_has_notes_and_one_version(dist: ModuleType) -> None:
    version = dist.version_of(ROOT)
    assert dist.notes(ROOT / "CHANGELOG.md", version).startswith(f"# Espalier {version}\n")


def test_different_versions_are_refused(dist: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "packaging/local").mkdir(parents=True)
    for place, version in (("", "1.0.0"), ("packaging/local", "1.0.1")):
        (tmp_path / place / "pyproject.toml").write_text(f'[project]\nversion = "{version}"\n')
    with pytest.raises(dist.Unreleasable, match=r"1\.0\.0, 1\.0\.1"):
        dist.version_of(tmp_path)


def test_digests_are_those_of_index_and_platforms(dist: ModuleType, tmp_path: Path) -> None:
    digests = dist.digests_of(small_archive(tmp_path))
    assert digests["digest"].startswith("sha256:")
    assert digests["platforms"].keys() == {"linux/amd64", "linux/arm64"}
    assert len({digests["digest"], *digests["platforms"].values()}) == 3


def test_charts_are_packed_with_the_same_bytes(dist: ModuleType, tmp_path: Path) -> None:
    chart = tmp_path / "charts/espalier"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text('name: espalier\nversion: "0.26.0"\n')
    (chart / "templates/all.yaml").write_text("kind: List\n")
    packed = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        dist.charts(tmp_path / "charts", tmp_path / name)
        packed.append((tmp_path / name / "espalier-0.26.0.tgz").read_bytes())
    assert packed[0] == packed[1]
    with tarfile.open(tmp_path / "first/espalier-0.26.0.tgz") as tar:
        assert tar.getnames() == ["espalier/Chart.yaml", "espalier/templates/all.yaml"]


def test_checkout_without_charts_has_none(dist: ModuleType, tmp_path: Path) -> None:
    dist.charts(tmp_path / "charts", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_new_release_replaces_the_old_one(dist: ModuleType, tmp_path: Path) -> None:
    target = tmp_path / "dist"
    target.mkdir()
    (target / "mine").write_text("not of a release")
    for files in ({"a-1.whl": "1", "NOTES.md": "1"}, {"a-2.whl": "2", "NOTES.md": "2"}):
        staged = tmp_path / "staged"
        staged.mkdir()
        for name, text in files.items():
            (staged / name).write_text(text)
        dist.replace(staged, target)
        staged.rmdir()
    assert {path.name for path in target.iterdir()} == {"a-2.whl", "NOTES.md", "SHA256SUMS", "mine"}
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=target, check=True)


def test_release_is_whole_and_the_same_again(dist: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    really = dist.run

    def run(*command: str, folder: Path = ROOT) -> None:
        if "image" not in command:
            really(*command, folder=folder)
            return
        archive = Path(command[command.index("-o") + 1])
        with tempfile.TemporaryDirectory() as made:
            small_archive(Path(made), command[-1]).rename(archive)

    monkeypatch.setattr(dist, "run", run)
    monkeypatch.chdir(tmp_path)  # make names the folder relative to the checkout
    sums = []
    for _ in range(2):
        assert dist.main(["dist"]) == 0
        sums.append((tmp_path / "dist/SHA256SUMS").read_text())
    assert sums[0] == sums[1]
    version = dist.version_of(ROOT)
    assert {line.split("  ")[1] for line in sums[0].splitlines()} == {
        "NOTES.md",
        "images.json",
        f"espalier-{version}.tgz",
        f"espalier-manager-{version}.tar",
        f"espalier_control_plane-{version}-py3-none-any.whl",
        f"espalier_control_plane_local-{version}-py3-none-any.whl",
    }
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=tmp_path / "dist", check=True)


def test_failed_build_leaves_the_earlier_release(
    dist: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*command: str, folder: Path = ROOT) -> None:
        raise dist.Unreleasable("no disk")

    monkeypatch.setattr(dist, "run", run)
    (tmp_path / "SHA256SUMS").write_text("before\n")
    assert dist.main([str(tmp_path)]) == 1
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"SHA256SUMS": "before\n"}
