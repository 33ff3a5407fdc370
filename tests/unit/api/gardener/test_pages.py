from __future__ import annotations

from pathlib import Path

import pytest

from espalier.api.definitions.field_docs import page
from espalier.api.kinds import KubeObject
from espalier.cli import pages
from espalier.cli.pages import GARDENER_KINDS

PAGES = Path(__file__).parents[4] / "docs" / "reference" / "gardener"
EVERY = [(place, kind) for place, kinds in GARDENER_KINDS.items() for kind in kinds]


@pytest.mark.parametrize(("place", "kind"), EVERY)
def test_the_pages_are_those_of_the_kinds(place: str, kind: type[KubeObject]) -> None:
    """When this fails: make pages."""
    assert (PAGES / place / f"{kind.declaration.singular}.md").read_text() == page(kind)


def test_there_is_a_page_for_each_kind_and_no_other() -> None:
    expected = {f"{place}/{kind.declaration.singular}.md" for place, kind in EVERY}
    of_all = {name.removeprefix("gardener/") for name in pages.PAGES if name.startswith("gardener/")}
    assert {path.relative_to(PAGES).as_posix() for path in PAGES.rglob("*.md")} == expected | of_all
