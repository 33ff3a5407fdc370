"""The two wheels of this tree: one for what runs beside a real API server, one for the local environment."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from espalier.cli.kit import distribution

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = {distribution.NAME: ROOT, distribution.LOCAL: ROOT / "packaging/local"}
PROJECTS = {name: tomllib.loads((folder / "pyproject.toml").read_text()) for name, folder in FOLDERS.items()}
TOOLS = PROJECTS[distribution.NAME]["tool"]
BUILD = "import sys, hatchling.build; hatchling.build.{}(sys.argv[1])"


def built(hook: str, folder: Path, target: Path) -> Path:
    before = set(target.glob("*.whl"))
    subprocess.run([sys.executable, "-c", BUILD.format(hook), str(target)], cwd=folder, check=True, capture_output=True)
    (wheel,) = set(target.glob("*.whl")) - before
    return wheel


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    target = tmp_path_factory.mktemp("wheels")
    return {name: built("build_wheel", folder, target) for name, folder in FOLDERS.items()}


def names_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def test_each_file_is_in_one_of_two_wheels(wheels: Mapping[str, Path]) -> None:
    first, second = (names_in(wheels[name]) for name in (distribution.NAME, distribution.LOCAL))
    assert first & second == set()
    files = {path for path in (ROOT / "src").rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert first | second == {path.relative_to(ROOT / "src").as_posix() for path in files}


def test_the_second_wheel_has_the_local_modules(wheels: Mapping[str, Path]) -> None:
    for name, wheel in wheels.items():
        modules = {path.removesuffix(".py").replace("/", ".") for path in names_in(wheel)}
        assert {distribution.is_local(module) for module in modules} == {name == distribution.LOCAL}


def test_imports_are_forbidden_by_the_same_list() -> None:
    contracts = TOOLS["importlinter"]["contracts"]
    (contract,) = [contract for contract in contracts if "espalier.simulator" in contract.get("forbidden_modules", ())]
    assert contract["forbidden_modules"] == list(distribution.LOCAL_MODULES)
    package = ROOT / "src/espalier"
    modules = {
        f"espalier.{path.relative_to(package).with_suffix('').as_posix().replace('/', '.')}"
        for folder in (package, package / "cli", package / "providers")
        for path in folder.iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    modules = {module for module in modules if not module.endswith("__init__")} - {"espalier.cli", "espalier.providers"}
    assert set(contract["source_modules"]) == {module for module in modules if not distribution.is_local(module)}


def test_both_distributions_require_the_same_version() -> None:
    first, second = (PROJECTS[name]["project"] for name in (distribution.NAME, distribution.LOCAL))
    assert first["version"] == second["version"]
    assert first["optional-dependencies"]["local"] == [f"{distribution.LOCAL}=={second['version']}"]
    assert second["dependencies"][0] == f"{distribution.NAME}=={first['version']}"


def test_an_editable_second_one_is_a_path(tmp_path: Path) -> None:
    wheel = built("build_editable", FOLDERS[distribution.LOCAL], tmp_path)
    with zipfile.ZipFile(wheel) as archive:
        (path,) = [name for name in archive.namelist() if ".dist-info/" not in name]
        assert archive.read(path).decode() == str(ROOT / "src")


class Installed:
    """A fresh virtual environment that sees the libraries of this one, but not its checkout."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._home = folder / "home"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
        (packages,) = folder.glob("lib/python*/site-packages")
        # Paths of a .pth are not searched for further .pth files, such as that of the checkout.
        (packages / "libraries.pth").write_text(sysconfig.get_path("purelib"))

    def install(self, wheel: Path) -> None:
        """Install a wheel, without index."""
        pip = [sys.executable, "-m", "pip", "--python", str(self._folder / "bin/python"), "install"]
        options = ["--quiet", "--no-deps", "--no-index", "--no-compile", "--ignore-installed"]
        subprocess.run([*pip, *options, str(wheel)], check=True)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run the command."""
        return subprocess.run(
            [str(self._folder / "bin/espalier"), *words],
            capture_output=True,
            text=True,
            check=False,
            env={"ESPALIER_HOME": str(self._home), "PATH": ""},
            cwd=self._folder,
            timeout=60,
        )


MANIFEST = str(ROOT / "examples/docker.yaml")
NOT_CHECKED = "rules of CRDs"


def test_commands_after_each_wheel_is_installed(wheels: Mapping[str, Path], tmp_path: Path) -> None:
    python = Installed(tmp_path / "venv")
    python.install(wheels[distribution.NAME])
    works: list[tuple[str, ...]] = [("--help",), ("manifests", "--image", "example.org/espalier:1"), ("plan", "--help")]
    for words in works:
        ended = python.run(*words)
        assert (ended.returncode, ended.stderr) == (0, ""), words
    ended = python.run("validate", "-f", MANIFEST)
    assert ended.returncode == 0, ended.stderr
    assert NOT_CHECKED in ended.stdout + ended.stderr
    lacking: list[tuple[str, ...]] = [("up",), ("image", "build", "manager", "-o", "x")]
    for words in lacking:
        ended = python.run(*words)
        assert ended.returncode == 1
        assert f"install {distribution.LOCAL} {distribution.version()}, from" in ended.stderr
        assert ended.stderr.count("\n") == 1

    python.install(wheels[distribution.LOCAL])
    ended = python.run("validate", "-f", MANIFEST)
    assert ended.returncode == 0, ended.stderr
    assert NOT_CHECKED not in ended.stdout + ended.stderr
    assert "espalier up" in python.run("status").stderr
