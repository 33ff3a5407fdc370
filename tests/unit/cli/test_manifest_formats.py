"""`espalier manifests --format`: files for other tools, with the same objects."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from espalier.api.meta import Tree
from espalier.cli.install import clusterctl, written
from espalier.cli.kit import distribution
from espalier.cli.kit.failures import Exit
from espalier.cli.main import run
from tests.support.servers.helm import trees_of
from tests.support.servers.kubectl import find_kubectl


def by_name(trees: list[Tree]) -> dict[tuple[str, str, str], Tree]:
    return {(tree["kind"], tree["metadata"].get("namespace", ""), tree["metadata"]["name"]): tree for tree in trees}


def printed(capsys: pytest.CaptureFixture[str], *flags: str) -> list[Tree]:
    assert run(["manifests", *flags]) == 0
    return trees_of(capsys.readouterr().out)


def based(folder: Path) -> list[Tree]:
    """The objects that kustomize makes of a folder."""
    ended = subprocess.run(
        [find_kubectl(), "kustomize", str(folder)], check=True, capture_output=True, text=True, timeout=60
    )
    return trees_of(ended.stdout)


IMAGE = "registry.example.com/espalier:v1"
SAME = [
    ("--image", IMAGE),
    ("--webhook-url", "https://10.0.0.5:9443"),
    ("--image", IMAGE, "-n", "a,b", "--in-place", "hooks", "--metrics", "--management-cluster", "default/m"),
    ("--of", "garden", "--image", IMAGE),
    ("--of", "seed", "--image", IMAGE, "--seed", "west"),
    ("--kubeconfig-copies", "-n", "a"),
]


@pytest.mark.parametrize("flags", SAME, ids=lambda flags: " ".join(flags)[:40])
def test_a_base_has_the_objects_of_manifests(
    flags: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = printed(capsys, *flags)
    assert run(["manifests", "--format", "kustomize", "--output-dir", str(tmp_path / "base"), *flags]) == 0
    result = based(tmp_path / "base")
    assert len(result) == len(expected)
    assert by_name(result) == by_name(expected)


def test_an_overlay_of_a_base_sets_the_image(tmp_path: Path) -> None:
    assert run(["manifests", "--format", "kustomize", "--output-dir", str(tmp_path / "base")]) == 0
    overlay = tmp_path / "overlay"
    overlay.mkdir()
    images = [{"name": "espalier", "newName": "registry.example.com/e", "newTag": "v2"}]
    (overlay / "kustomization.yaml").write_text(yaml.safe_dump({"resources": ["../base"], "images": images}))
    (deployed,) = (tree for tree in based(overlay) if tree["kind"] == "Deployment")
    assert deployed["spec"]["template"]["spec"]["containers"][0]["image"] == "registry.example.com/e:v2"


@pytest.mark.parametrize("format_", ["chart", "kustomize"])
def test_files_are_written_again_over_earlier_ones(format_: str, tmp_path: Path) -> None:
    command = ["manifests", "--format", format_, "--output-dir", str(tmp_path)]
    assert run(command) == 0
    before = {path: path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    changed = min(before)
    changed.write_text("")
    assert run(command) == 0
    assert {path: path.read_text() for path in before} == before


@pytest.mark.parametrize("format_", ["kustomize", "chart", "clusterctl"])
def test_failed_run_leaves_the_earlier_files(format_: str, tmp_path: Path) -> None:
    folder = tmp_path / "made"
    image = () if format_ == "chart" else ("--image", "example.com/old:v1")
    assert run(["manifests", "--format", format_, "--output-dir", str(folder), *image]) == 0
    left = next(folder.rglob("*.yaml" if format_ != "clusterctl" else "metadata.yaml")).parent / ".espalier-new"
    left.mkdir()  # of a run that was killed
    (left / "half").touch()
    texts = {path: path.read_text().replace("old:v1", "old:v0") for path in folder.rglob("*.yaml")}
    for path, text in texts.items():
        path.write_text(text)
    flags = ["manifests", "--format", format_, "--output-dir", str(folder), *image]
    program = [sys.executable, "-m", "espalier.cli", *flags]
    ended = subprocess.run(
        ["/bin/sh", "-c", 'ulimit -f 2; exec "$@"', "sh", *program],
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, "File too large" in ended.stderr, "Traceback" in ended.stderr) == (1, True, False)
    assert {path: path.read_text() for path in folder.rglob("*.yaml")} == texts
    assert run(flags) == 0
    assert not list(folder.rglob(".espalier-new"))


def test_files_of_others_are_neither_lost_nor_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Helm renders every file of a chart's folder of templates: one of an earlier version, too."""
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "old.yaml").write_text("mine")
    assert run(["manifests", "--format", "chart", "--output-dir", str(tmp_path)]) == Exit.USAGE
    assert f"found templates/old.yaml in {tmp_path}, allowed is a folder with nothing but" in capsys.readouterr().err
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["old.yaml"]


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_folder_that_is_a_file_is_refused(place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("mine")
    folder = tmp_path / place
    assert run(["manifests", "--format", "chart", "--output-dir", str(folder)]) == Exit.REFUSED
    assert capsys.readouterr().err.startswith(f"error: {folder}")
    assert (tmp_path / "file").read_text() == "mine"


PROVIDERS = ["--format", "clusterctl", "--output-dir"]
RELEASE = f"runtime-extension-espalier/v{distribution.version()}"


def test_a_provider_has_the_objects_of_manifests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ("--image", IMAGE, "-n", "a", "--in-place", "hooks", "--metrics", "--management-cluster", "default/m")
    expected = printed(capsys, *flags)
    assert run(["manifests", *PROVIDERS, str(tmp_path), *flags]) == 0
    text = (tmp_path / RELEASE / "runtime-extension-components.yaml").read_text()
    assert trees_of(text) == expected
    assert "${" not in text, "a variable of clusterctl, which replaces it"
    assert "$$" not in text, "an escaped one"
    (deployed,) = (tree for tree in expected if tree["kind"] == "Deployment")
    assert [container["name"] for container in deployed["spec"]["template"]["spec"]["containers"]] == ["manager"]
    assert len([tree for tree in expected if tree["kind"] == "Namespace"]) == 1


def test_metadata_have_the_series_of_every_version() -> None:
    """Of an installed version, too: clusterctl reads those of the newest."""
    series = yaml.safe_load(clusterctl.release("v2.3.1", [])["metadata.yaml"])["releaseSeries"]
    assert series == [{"major": 2, "minor": minor, "contract": "v1beta2"} for minor in (3, 2, 1, 0)]


def test_a_later_release_is_added_to_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(["manifests", *PROVIDERS, str(tmp_path), "--image", IMAGE]) == 0
    monkeypatch.setattr(distribution, "version", lambda: "99.1.0")
    assert run(["manifests", *PROVIDERS, str(tmp_path), "--image", IMAGE]) == 0
    assert (tmp_path / RELEASE / "metadata.yaml").exists()
    (entry,) = yaml.safe_load((tmp_path / "clusterctl.yaml").read_text())["providers"]
    added = tmp_path / "runtime-extension-espalier" / "v99.1.0" / "runtime-extension-components.yaml"
    assert entry["url"] == added.as_uri()
    assert added.exists()


@pytest.mark.parametrize("edit", [("providers:", "A: b\nproviders:"), ("file:///", "https://e.io/")], ids="vu")
def test_a_configuration_with_edits_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], edit: tuple[str, str]
) -> None:
    assert run(["manifests", *PROVIDERS, str(tmp_path), "--image", IMAGE]) == 0
    configuration = tmp_path / "clusterctl.yaml"
    edited = configuration.read_text().replace(*edit)
    configuration.write_text(edited)
    monkeypatch.setattr(distribution, "version", lambda: "99.1.0")
    assert run(["manifests", *PROVIDERS, str(tmp_path), "--image", IMAGE]) == 0
    assert configuration.read_text() == edited
    assert "stays as it is: its provider espalier needs this url: file:///" in capsys.readouterr().err


WRONG = [
    ([*PROVIDERS, "a"], "--format clusterctl: needs --image"),
    ([*PROVIDERS, "a", "--image", "a", "--of", "garden"], "--of: found with --format clusterctl, whose provider is"),
    ([*PROVIDERS, "a", "--webhook-url", "https://a"], "--webhook-url: found with --format clusterctl"),
    (["--format", "chart"], "--format chart: needs --output-dir"),
    (["--output-dir", "a", "--image", "a"], "--output-dir: found without a --format that writes files"),
    (["--format", "helm"], "found 'helm', allowed are yaml, chart"),
    (["--format", "chart", "--output-dir", "a", "--image", "a"], "--image: found with --format chart; set the chart's"),
    (["--format", "chart", "--output-dir", "a", "-n", "a"], "set the chart's namespaces instead"),
    (["--format", "chart", "--output-dir", "a", "--of", "seed"], "--of: found with --format chart; a chart is of"),
    (["--format", "kustomize", "--output-dir", "a", "--of", "seed", "--seed", "a"], "found --seed without --image"),
]


@pytest.mark.parametrize(("words", "message"), WRONG, ids=lambda value: " ".join(value)[:40])
def test_formats_refuse_flags_they_do_not_take(
    words: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["manifests", *words]) == Exit.USAGE
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("in_the_way", ["c.yaml", "d"])
def test_error_between_renames_changes_no_file(tmp_path: Path, in_the_way: str) -> None:
    (tmp_path / "a.yaml").write_text("former a")
    if in_the_way == "d":
        (tmp_path / "d").symlink_to(tmp_path / "nowhere")  # instead of a folder
    else:
        (tmp_path / in_the_way).mkdir()
    with pytest.raises(OSError, match=in_the_way):
        written.write(tmp_path, {"a.yaml": "a", "b.yaml": "b", "c.yaml": "c", "d/e.yaml": "e"})
    assert (tmp_path / "a.yaml").read_text() == "former a"
    assert not (tmp_path / "b.yaml").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.yaml", in_the_way]
    if in_the_way != "d":
        (tmp_path / in_the_way).rmdir()
        written.write(tmp_path, {"a.yaml": "a", "c.yaml": "c"})
        assert [(tmp_path / name).read_text() for name in ("a.yaml", "c.yaml")] == ["a", "c"]
