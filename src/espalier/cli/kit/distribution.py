"""The distribution that this program was installed from.

On the Python index, `espalier` is somebody else's project, so the distribution has another name than the command, and
what people are told to install is named by its libraries.
"""

from __future__ import annotations

import shlex
import sys
from contextlib import suppress

NAME = "espalier-control-plane"
"""As in pyproject.toml."""
LOCAL = "espalier-control-plane-local"
"""The second distribution, of the local environment: as in packaging/local/pyproject.toml."""
LOCAL_MODULES = (
    "espalier.apiserver",
    "espalier.assets",
    "espalier.cli.local",
    "espalier.cli.pages",
    "espalier.cli.upgrader_archives",
    "espalier.providers.simulated",
    "espalier.realnodes",
    "espalier.simulator",
)
"""Its packages and modules, which the first one excludes."""


def version() -> str:
    """The version of this build."""
    from importlib.metadata import version as version_of  # noqa: PLC0415  slow to import

    return version_of(NAME)


def needs(extra: str) -> list[str]:
    """The libraries that an extra adds; empty where they are not recorded, as in an image of the manager."""
    from importlib.metadata import PackageNotFoundError, requires  # noqa: PLC0415

    if extra == "local":
        with suppress(PackageNotFoundError):
            return [requirement for requirement in requires(LOCAL) or [] if not requirement.startswith(NAME)]
        return []
    requirements = (requirement.partition(";") for requirement in requires(NAME) or [])
    return [
        requirement.strip()
        for requirement, _, marker in requirements
        if marker.replace('"', "'").strip() == f"extra == '{extra}'"
    ]


def install(extra: str) -> str:
    """The command that installs the libraries that an extra adds, for the Python that runs this program."""
    return shlex.join([sys.executable, "-m", "pip", "install", *needs(extra)])


def is_local(module: str) -> bool:
    """True for a module of the local environment."""
    return any(module == local or module.startswith(f"{local}.") for local in LOCAL_MODULES)
