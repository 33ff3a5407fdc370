"""docs/proposals.md is that of the marked tests; each demand has a test in every run, or a reason why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conventions.demands import PROPOSALS, Shown, marked, page

ROOT = Path(__file__).parents[2]
LAST = {"L": 72, "V": 32, "I": 37, "U": 76, "G": 82}
"""How many demands each proposal has."""
DEMANDS = [f"{letter}{number}" for letter, last in LAST.items() for number in range(1, last + 1)]


def test_the_page_is_generated_from_marked_tests() -> None:
    """When this fails: make pages."""
    assert (ROOT / "docs" / "proposals.md").read_text() == page()


def test_demands_are_those_of_the_five_proposals() -> None:
    assert [demand for proposal in PROPOSALS.values() for demand in proposal["demands"]] == DEMANDS


def test_a_demand_has_a_test_in_every_run_or_a_reason() -> None:
    """When this fails: mark a test, or say in demands.toml why there is none; not both."""
    shown = marked()
    untested = {demand for proposal in PROPOSALS.values() for demand in proposal["untested"]}
    assert {demand for demand in DEMANDS if demand not in shown} == untested
    late = {demand for demand, tests in shown.items() if not any(test.in_every_run for test in tests)}
    assert late == set()


def test_marks_and_notes_name_demands() -> None:
    noted = {demand for proposal in PROPOSALS.values() for table in ("notes", "untested") for demand in proposal[table]}
    assert (marked().keys() | noted) - set(DEMANDS) == set()


MODULE = """
import pytest
{pytestmark}

@pytest.mark.demand("L2", "L1", L3="of `vSphere`")
def test_first(): ...

@pytest.mark.soak
@pytest.mark.demand("L3")
async def test_second(): ...

@pytest.mark.demand("L4")
def helper(): ...
"""


@pytest.mark.parametrize(
    "marks",
    [
        "",
        "pytestmark = [pytest.mark.nodes, pytest.mark.slow]",
        "pytestmark = pytest.mark.soak",
        "pytestmark = [pytest.mark.soak]",
    ],
)
def test_marks_are_read_with_parts_and_runs(tmp_path: Path, marks: str) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_it.py").write_text(MODULE.format(pytestmark=marks))
    path, usual = "tests/test_it.py", not marks
    assert marked(tmp_path) == {
        "L2": [Shown(path, "test_first", "", usual)],
        "L1": [Shown(path, "test_first", "", usual)],
        "L3": [Shown(path, "test_second", "", False), Shown(path, "test_first", "of `vSphere`", usual)],
    }
