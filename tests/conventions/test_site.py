"""The site of `make docs` has every page in its navigation, and pictures as they are drawn."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
SITE = runpy.run_path(str(ROOT / "packaging" / "docs" / "site.py"))


def named(entry: Any) -> Iterator[str]:
    """The pages of a part of the navigation."""
    if isinstance(entry, str):
        yield entry
    else:
        for part in entry.values() if isinstance(entry, dict) else entry:
            yield from named(part)


def test_navigation_has_each_page_once() -> None:
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    navigation = list(named(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]))
    navigation += [page for folder in SITE["FOLDERS"] for page in SITE["pages_of"](folder)]
    indices = {f"{folder}/README.md" for folder in SITE["FOLDERS"]}
    assert sorted(set(navigation) - indices) == sorted(pages - indices)
    assert len(navigation) == len(set(navigation))


def test_links_lead_to_pages_of_the_site(tmp_path: Path) -> None:
    (tmp_path / "reference").mkdir()
    (tmp_path / "reference" / "README.md").write_text("")
    (tmp_path / "plan.md").write_text("")
    linked = SITE["linked"]
    page = "[all](../reference), [plan](../plan.md#what), [code](../../src/a.py), [up](#up), ![p](../../p.svg)"
    assert linked(page, "decisions", tmp_path) == (
        "[all](../reference/README.md), [plan](../plan.md#what), code, [up](#up), ![p](../../p.svg)"
    )


def test_diagrams_are_as_they_are_drawn() -> None:
    diagrams = runpy.run_path(str(DOCS / "pictures" / "diagrams.py"))
    for name in ("architecture", "reconcile", "move"):
        assert (DOCS / "pictures" / f"{name}.svg").read_text() == diagrams[name]()
