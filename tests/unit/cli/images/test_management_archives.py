"""Images of what runs in a management cluster, as the registry of real nodes finds them."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

import espalier
from espalier.assets.cache import assets_folder, seal
from espalier.assets.recipes import CLUSTER_API
from espalier.cli.local.images.management_archives import ENTRY, built_images, images, main
from espalier.realnodes.management.cluster_api import MANAGERS
from espalier.realnodes.nspawn.system.registry import ServedImages

CORE = MANAGERS[0].name


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ESPALIER_CACHE", str(tmp_path / "cache"))
    return tmp_path


def programs(content: str) -> None:
    folder = CLUSTER_API.home(assets_folder())
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / CORE
    program.write_text(content)
    program.chmod(0o755)
    seal(folder)


def test_image_of_cluster_api_has_its_program(cache: Path) -> None:
    programs("the program")
    name = images()[CORE]
    build = built_images()[name]
    assert main(CORE, name, str(build.folder)) == 0
    served = ServedImages({}, [], {name: build})
    manifest = json.loads(blob(served, served.digest(name) or "").read_bytes())
    settings = json.loads(blob(served, manifest["config"]["digest"]).read_bytes())["config"]
    assert (settings["Entrypoint"], settings["User"]) == (["/manager"], "65532:65532")
    with tarfile.open(blob(served, manifest["layers"][0]["digest"])) as tar:
        assert (tar.getmember("manager").mode, tar.getmember("tmp").mode) == (0o755, 0o1777)
        program = tar.extractfile("manager")
        assert program is not None
        assert program.read() == b"the program"
    assert not list(build.folder.glob("*.tar"))


def blob(served: ServedImages, digest: str) -> Path:
    path = served.blob(digest)
    assert path is not None
    return path


def test_missing_programs_are_named(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(CORE, images()[CORE], str(cache / "made")) == 1
    assert "run `make real-assets`" in capsys.readouterr().err
    assert not (cache / "made").exists()


def test_killed_build_begins_again(cache: Path) -> None:
    programs("the program")
    left = cache / "made.new" / "half"
    left.mkdir(parents=True)
    assert main(CORE, images()[CORE], str(cache / "made")) == 0
    assert not (cache / "made" / "half").exists()


def test_other_sources_make_another_image(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = built_images()[images()["manager"]].folder
    package = cache / "espalier"
    package.mkdir()
    (package / "__init__.py").write_text("changed")
    monkeypatch.setattr(espalier, "__file__", str(package / "__init__.py"))
    assert built_images()[images()["manager"]].folder != before


def test_stored_command_names_a_stable_module() -> None:
    assert {build.command[1:3] for build in built_images().values()} == {("-m", ENTRY)}
    assert ENTRY == "espalier.cli.local.images.management_archives"
