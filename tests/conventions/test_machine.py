"""The machine is no input of tests: its disk, locale, time zone, terminal and proxies."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
FILES = sorted(TESTS.rglob("test_*.py"))


def given_with_folders(source: str) -> list[str]:
    """Properties whose examples each leave a folder until the end of the run."""
    return [
        node.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and any(ast.unparse(item).startswith("given(") for item in node.decorator_list)
        and any(arg.arg.startswith("tmp_path") for arg in node.args.args)
    ]


def test_examples_of_properties_leave_no_folders() -> None:
    """Thousands of them would be kept. They use `tempfile.TemporaryDirectory`."""
    left = {file.name: names for file in FILES if (names := given_with_folders(file.read_text()))}
    assert left == {}


def test_a_property_with_a_folder_is_found() -> None:
    source = "@given(st.integers())\ndef test_it(number: int, tmp_path_factory: object) -> None: ...\n"
    assert given_with_folders(source) == ["test_it"]


ODD = {
    "TZ": "Pacific/Chatham",
    "LC_ALL": "tr_TR.UTF-8",
    "COLUMNS": "37",
    "LINES": "5",
    "FORCE_COLOR": "1",
    "KUBECONFIG": "/nonexistent",
    "HTTP_PROXY": "http://127.0.0.1:9",
    "HTTPS_PROXY": "http://127.0.0.1:9",
}
"""Settings of a user that tests must not notice."""


@pytest.mark.soak
@pytest.mark.parametrize("package", ["api", "assets", "cli", "etcdbackup", "kube", "runtime"])
def test_unit_tests_pass_with_odd_settings(package: str) -> None:
    """Those of packages that read the environment, print, or connect."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "0",
        "--color=no",
        "-p",
        "no:cacheprovider",
        "-m",
        "not soak",
    ]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [*command, str(TESTS / "unit" / package)],
        cwd=TESTS.parent,
        env={**environment, **ODD},  # in the usual folder: paths of sockets are short
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:]
