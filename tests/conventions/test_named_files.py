"""Every file that a page or a docstring names in backticks exists at that place, and so does every decision."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src/espalier"
DECISIONS = ROOT / "docs/decisions"
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted(DECISIONS.glob("*.md")),
]
CITED_IN_PAGES = re.compile(r"(?<![\w\"'.:/+-])0[0-2]\d\d(?![\w:-]|\.\d)")
"""The number of a decision, anywhere in the text of a page."""
CITED = re.compile(r"\b[Dd]ecisions? (0\d{3}(?:(?:, | and | or | to )0\d{3})*)|docs/decisions/(0\d{3})")
"""The numbers after the word, or of a file's name: in code, a number alone may be anything."""
NAMES = {path.name for top in ("src", "tests", "benchmarks") for path in (ROOT / top).rglob("*.py")}
BACKTICKS = re.compile(r"`([^`\n]+)`")
FILE = re.compile(r"(?<![\w./*<>{}$-])[\w.-]+(?:/[\w.-]+)*\.py(?![\w./-])")
FOLDER = re.compile(r"(?<![\w./*<>{}$-])(?:[\w.-]+/)+(?![\w./*<{-])")


def named(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    """Matches of the pattern within backticks."""
    for quoted in BACKTICKS.findall(text):
        yield from pattern.findall(quoted)


def missing_of_page(page: Path) -> Iterator[str]:
    """Paths start at the repository or at src/espalier. A bare name only has to exist somewhere."""
    text = page.read_text()
    for path in named(FILE, text):
        exists = (ROOT / path).is_file() or (SOURCE / path).is_file()
        if not exists and ("/" in path or path not in NAMES):
            yield path
    yield from missing_folders(text)


def missing_folders(text: str) -> Iterator[str]:
    """Folders, written with a slash at their end, of a package of ours or of tests."""
    for folder in named(FOLDER, text):
        top = folder.partition("/")[0]
        is_ours = top == "tests" or (SOURCE / top).is_dir()
        if is_ours and not ((ROOT / folder).is_dir() or (SOURCE / folder).is_dir()):
            yield folder


def missing_of_module(module: Path) -> Iterator[str]:
    """Paths start at the module's folder, at a folder above it, or at the repository."""
    for path in named(FILE, module.read_text()):
        above = [folder for folder in module.parents if folder.is_relative_to(SOURCE)]
        if not any((folder / path).is_file() for folder in [*above, ROOT]):
            yield f"{module.relative_to(SOURCE)}: {path}"
    yield from (f"{module.relative_to(SOURCE)}: {folder}" for folder in missing_folders(module.read_text()))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_named_by_a_page_exist(page: Path) -> None:
    assert [*missing_of_page(page)] == []


def test_files_named_by_docstrings_exist() -> None:
    assert [path for module in sorted(SOURCE.rglob("*.py")) for path in missing_of_module(module)] == []


def cited(path: Path) -> set[str]:
    """The numbers of decisions to which a page, or the prose of code, refers."""
    text = path.read_text()
    if path.suffix == ".md":
        return set(CITED_IN_PAGES.findall(text))
    return {number for groups in CITED.findall(text) for number in re.findall(r"0\d{3}", " ".join(groups))}


def test_each_decision_is_in_the_index_once() -> None:
    index = (DECISIONS / "README.md").read_text()
    files = sorted(path.name for path in DECISIONS.glob("0*.md"))
    assert sorted(re.findall(r"\]\((0\d{3}-[^)]+)\)", index)) == files


def test_index_of_decisions_has_questions_of_a_line() -> None:
    lines = (DECISIONS / "README.md").read_text().splitlines()
    questions = [re.sub(r"\]\([^)]*\)", "]", line) for line in lines if "](0" in line]
    assert [line for line in questions if len(line) > 80 or not line.endswith("?")] == []


@pytest.mark.parametrize("top", ["src", "tests", "docs", "benchmarks", "findings", "packaging", "."])
def test_decisions_that_are_referred_to_exist(top: str) -> None:
    known = {path.name[:4] for path in DECISIONS.glob("0*.md")}
    paths = [
        path
        for suffix in ("py", "md", "toml", "sh")
        for path in ((ROOT / top).glob(f"*.{suffix}") if top == "." else (ROOT / top).rglob(f"*.{suffix}"))
    ]
    assert {f"{path.relative_to(ROOT)}: {number}" for path in paths for number in cited(path) - known} == set()
