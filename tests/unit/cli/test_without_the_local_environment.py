"""Espalier without libraries or modules of its extras: what runs beside a real cluster works, the rest says what it
lacks. Whole distributions are in `test_distributions.py`.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from espalier.cli.kit import distribution
from espalier.cli.kit.failures import explain
from tests.support.sampling import sampled

ROOT = Path(__file__).resolve().parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = {
    "local": tomllib.loads((ROOT / "packaging/local/pyproject.toml").read_text())["project"]["dependencies"][1:],
    "etcd": PROJECT["optional-dependencies"]["etcd"],
    "gitops": PROJECT["optional-dependencies"]["gitops"],
}
"""The libraries that each extra adds."""
LOCAL = ("apsw", "cel_expr_python", *distribution.LOCAL_MODULES)
"""Modules that the extra installs."""
WITHOUT = """
import sys
for name in sys.argv.pop(1).split(","):
    sys.modules[name] = None
from espalier.cli.main import main
main()
"""


def command(tmp_path: Path, *words: str, without: str = ",".join(LOCAL)) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT, without, *words],
        capture_output=True,
        text=True,
        check=False,
        env={"ESPALIER_HOME": str(tmp_path / "home"), "PATH": ""},
        cwd=tmp_path,
        timeout=60,
    )


@pytest.mark.soak
@pytest.mark.parametrize(
    "words",
    sampled(
        [
            (("manager", "--help"),),
            (("manifests", "--image", "example.org/espalier:1"),),
            (("generate", "objects", "-f", str(ROOT / "examples/docker.yaml")),),
            (("version",),),
        ],
        3,
    ),
    ids=lambda words: words[0],
)
def test_programs_in_clusters_need_no_local_extra(tmp_path: Path, words: tuple[str, ...]) -> None:
    ended = command(tmp_path, *words, without=",".join(LOCAL))
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.soak
@pytest.mark.parametrize(
    "words", [("plan", "-f", str(ROOT / "examples/docker.yaml")), ("get", "clusters")], ids=["plan", "get"]
)
def test_commands_for_api_server_get_as_far_as_request(tmp_path: Path, words: tuple[str, ...]) -> None:
    nobody = tmp_path / "kubeconfig"
    cluster = {"name": "a", "cluster": {"server": "https://127.0.0.1:1"}}
    context = {"name": "a", "context": {"cluster": "a", "user": ""}}
    nobody.write_text(json.dumps({"clusters": [cluster], "contexts": [context], "current-context": "a"}))
    ended = command(tmp_path, *words, "--kubeconfig", str(nobody), without=",".join(LOCAL))
    assert ended.returncode == 3
    assert "https://127.0.0.1:1" in ended.stderr


@pytest.mark.parametrize(
    ("words", "without"),
    sampled(
        [
            (("up",), "apsw"),
            (("demo",), "apsw"),
            (("demo", "migration"), "google"),
            (("up",), "espalier.cli.local"),
            (("down",), "espalier.realnodes"),
            (("image", "build", "manager", "-o", "x"), "espalier.assets"),
        ],
        4,
    ),
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_commands_that_need_it_say_how_to_get_it(tmp_path: Path, words: tuple[str, ...], without: str) -> None:
    ended = command(tmp_path, *words, without=without)
    assert ended.returncode == 1
    assert f"no module {without}" in ended.stderr
    extra = {"apsw": "local", "google": "etcd"}.get(without)
    how = f"`{install_command(extra)}`" if extra else f"install {distribution.LOCAL} {distribution.version()}"
    assert how in ended.stderr
    assert ended.stderr.count("error: ") == 1
    assert "Traceback" not in ended.stderr


def install_command(extra: str) -> str:
    """Only names of libraries that are locked with their hashes: no project that happens to be called as we are."""
    words = shlex.split(distribution.install(extra))
    assert words[:4] == [sys.executable, "-m", "pip", "install"]
    assert words[4:] == EXTRAS[extra]
    return distribution.install(extra)


def test_the_hint_installs_what_the_extra_lists() -> None:
    assert PROJECT["name"] == distribution.NAME
    assert PROJECT["optional-dependencies"].keys() == EXTRAS.keys()
    for extra in EXTRAS:
        names = [re.split(r"[<>=]", word)[0] for word in shlex.split(install_command(extra))[4:]]
        assert set(names) <= {line.partition("==")[0] for line in locked("requirements.txt")}


def locked(name: str) -> dict[str, set[str]]:
    """Package and version -> hashes."""
    hashes: dict[str, set[str]] = {}
    for line in (ROOT / name).read_text().splitlines():
        if "==" in line:
            package = line.split(" ")[0]
            hashes[package] = set()
        elif "--hash=" in line:
            hashes[package].add(line.strip(" \\"))
    return hashes


@pytest.mark.parametrize(("image", "extras"), [("manager", ()), ("seed", ("etcd",))])
def test_images_have_the_lock_without_other_extras(image: str, extras: tuple[str, ...]) -> None:
    everything, own = (
        locked("requirements.txt"),
        locked(f"src/espalier/cli/local/images/requirements-{image}.txt"),
    )
    assert own.items() <= everything.items()
    only = {name.partition("==")[0] for name in everything.keys() - own.keys()}
    assert only == {
        re.split("[<>=]", requirement)[0] for extra in EXTRAS.keys() - set(extras) for requirement in EXTRAS[extra]
    }
    needed = {requirement.partition(">")[0] for requirement in PROJECT["dependencies"]}
    assert needed <= {name.partition("==")[0] for name in own}


def imported() -> set[str]:
    """The modules that the code imports, and the packages that contain them: the first one that is missing is named."""
    lines = re.compile(r"^ *(?:from|import) ([\w.]+)", re.MULTILINE)
    names = {name for path in (ROOT / "src").rglob("*.py") for name in lines.findall(path.read_text())}
    return {name[:end] for name in names for end in range(1, len(name) + 1) if name[end : end + 1] in ("", ".")}


def test_missing_module_of_an_extra_hints_at_it() -> None:
    of_package = packages_distributions()
    hinted = set()
    for extra, requirements in EXTRAS.items():
        packages = {re.split(r"[<>=]", requirement)[0] for requirement in requirements}
        for name in imported():
            if packages & set(of_package.get(name.partition(".")[0], ())):
                explained = explain(ModuleNotFoundError(f"No module named {name!r}", name=name))
                assert explained is not None, name
                assert install_command(extra) in explained[1]
                hinted.add(extra)
    assert hinted == EXTRAS.keys()
