"""The distribution that this program was installed from.

On the Python index, `espalier` is somebody else's project, so the distribution has another name than the command, and
what people are told to install is named by its libraries.
"""

from __future__ import annotations

import shlex
import sys

NAME = "espalier-control-plane"
"""As in pyproject.toml."""


def version() -> str:
    """The version of this build."""
    from importlib.metadata import version as version_of  # noqa: PLC0415  slow to import

    return version_of(NAME)


def needs(extra: str) -> list[str]:
    """The libraries that an extra adds; empty where they are not recorded, as in an image of the manager."""
    from importlib.metadata import requires  # noqa: PLC0415

    requirements = (one.partition(";") for one in requires(NAME) or [])
    return [
        requirement.strip()
        for requirement, _, marker in requirements
        if marker.replace('"', "'").strip() == f"extra == '{extra}'"
    ]


def install(extra: str) -> str:
    """The command that installs what an extra adds, for the Python that runs this program."""
    return shlex.join([sys.executable, "-m", "pip", "install", *needs(extra)])
