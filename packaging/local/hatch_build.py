"""The files of the local environment: those that the wheel of the checkout excludes."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

CHECKOUT = Path(__file__).resolve().parents[2]


class LocalEnvironment(BuildHookInterface[Any]):
    """Puts into one wheel what the other excludes, so that no file is in both or in neither."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Include the files, unless the installation is editable: that one has a path to the sources."""
        if version == "editable":
            return
        project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
        for place in project["tool"]["hatch"]["build"]["targets"]["wheel"]["exclude"]:
            path = place.strip("/")
            build_data["force_include"][str(CHECKOUT / path)] = path.removeprefix("src/")
