"""The contracts of import-linter list all providers: it can't be told of a whole folder."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
PACKAGE = "espalier.providers."


def test_each_provider_is_in_both_contracts() -> None:
    """When this fails: name the provider in both lists of pyproject.toml."""
    folders = [path.parent for path in (ROOT / "src/espalier/providers").glob("*/__init__.py")]
    providers = {PACKAGE + folder.name for folder in folders} - {f"{PACKAGE}simulated"}
    assert providers, "the folder is where it was"
    fields = {"forbidden": "forbidden_modules", "independence": "modules"}
    lists = [set(contract[fields[contract["type"]]]) for contract in CONTRACTS if contract["type"] in fields]
    naming = [modules for modules in lists if f"{PACKAGE}docker" in modules]
    assert naming == [providers, providers]
