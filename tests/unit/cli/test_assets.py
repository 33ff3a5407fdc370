"""`espalier assets`: what it prints, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from espalier.assets.cache import assets_folder
from espalier.assets.recipes import ETCD, KUBERNETES, TESTED
from espalier.cli.main import run
from tests.support.asset_builds import make_component


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ESPALIER_CACHE", str(tmp_path))
    return assets_folder()


def test_list_shows_built_assets_and_cost_of_others(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_component(ETCD, cache)
    assert run(["assets", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["NAME", "VERSION", "STATE", "SIZE", "TO", "BUILD"]
    assert lines[1].split()[:3] == ["etcd", ETCD.version, "built"]
    assert lines[2].split() == ["kubernetes", KUBERNETES.version, "missing", "~125", "MiB", "~5", "min"]
    assert run(["assets", "list", "-o", "wide"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[-1] == ETCD.home(cache).name


def test_the_list_can_be_read_by_programs(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = make_component(ETCD, cache)
    assert run(["assets", "list", "-o", "json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["folder"] == str(cache)
    assert result["assets"][0]["state"] == "built"
    assert result["assets"][0]["folder"] == str(home)
    assert result["assets"][1]["minutes"] == 5


def test_dry_run_builds_nothing_and_tells_what_lacks(
    cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    assert run(["assets", "build", "tests", "--dry-run"]) == 1
    shown = capsys.readouterr()
    assert f"Building into {cache}" in shown.out
    assert "together" in shown.out
    assert "no program 'go' on PATH" in shown.err
    assert not cache.exists()


def test_existing_assets_are_not_built_again(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for component in TESTED:
        make_component(component, cache)
    assert run(["assets", "build", "tests"]) == 0
    output = capsys.readouterr().out
    assert output.count("up to date") == len(TESTED)
    assert f"KUBEBUILDER_ASSETS={cache}/envtest-" in output


def test_an_unknown_component_is_a_wrong_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["assets", "build", "kubernetse"]) == 2
    assert "unknown component kubernetse; known: tests, flux, helm, gardener, nodes, etcd" in capsys.readouterr().err


def test_a_build_that_is_stopped_says_what_stays(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("espalier.assets.build.provide", stopped)
    assert run(["assets", "build", "tests"]) == 130
    assert "what was finished stays, the same command builds the rest" in capsys.readouterr().err


def test_pruning_says_how_much_was_removed(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = cache / "etcd-3.4.0-0123456789ab"
    old.mkdir(parents=True)
    (old / "SHA256SUMS").write_text("")
    assert run(["assets", "prune", "--dry-run"]) == 0
    assert old.is_dir()
    assert "1 would be removed" in capsys.readouterr().out
    assert run(["assets", "prune"]) == 0
    assert not old.exists()
    assert run(["assets", "prune"]) == 0
    assert f"nothing is outdated in {cache}" in capsys.readouterr().out
