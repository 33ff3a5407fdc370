"""Whatever strangers write, a parser reads it or says what is wrong with it: soon, in little memory, and survives."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from espalier.api.trees.json_trees import MOST_LEVELS
from tests.hostile.targets import TARGETS

ROOT = Path(__file__).parents[2]
EXAMPLES = 3


def feed(seconds: float, *names: str) -> None:
    """In a process of its own: an input that ends it is a failed test."""
    command = [sys.executable, "-m", "tests.hostile.child", str(seconds), str(EXAMPLES), *names]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ended with {done.returncode}\n{done.stdout[-8000:]}\n{done.stderr[-3000:]}"


def test_no_untrusted_text_crashes_a_parser() -> None:
    feed(0, *TARGETS)


@pytest.mark.soak
@pytest.mark.parametrize("name", TARGETS)
def test_no_untrusted_text_crashes_parser_in_long_runs(name: str) -> None:
    feed(float(os.environ.get("ESPALIER_SOAK_SECONDS", "60")), name)


NESTED = {
    "lists in one line": "[" * 60_000,
    "maps in one line": "{a: " * 60_000,
    "lists of lists": "- " * 60_000,
    "keys that are maps": "? " * 60_000,
    "after a whole document": "a: 1\n---\n" + "[" * 60_000,
}


@pytest.mark.parametrize("lenient", [False, True])
@pytest.mark.parametrize("name", NESTED)
def test_nested_yaml_is_refused_before_the_stack_ends(name: str, lenient: bool) -> None:
    """In a process of its own: without the depth check the C composer ends it with a segmentation fault."""
    program = (
        "import sys\n"
        "from espalier.api.trees import yaml_trees\n"
        "from espalier.api.text.violations import ManifestError\n"
        "try:\n"
        f"    yaml_trees.trees(sys.stdin.read(), 'nested.yaml', lenient={lenient})\n"
        "except ManifestError as error:\n"
        "    print(error)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=NESTED[name],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"ended with {done.returncode}\n{done.stderr[-3000:]}"
    assert f"nested more than {MOST_LEVELS} levels deep; reduce its nesting" in done.stdout
