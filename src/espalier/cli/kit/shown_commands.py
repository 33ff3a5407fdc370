"""Parts of printed commands, so that these can be copied: this program, and files, as a shell finds them."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parent / "examples" / "docker.yaml"
"""The manifest of `espalier demo`: in a checkout that of its examples, in a wheel a copy."""


def program() -> str:
    """This program, as it can be called from the working directory."""
    called = Path(sys.argv[0])
    if called.name == "__main__.py":
        return f"{path(Path(sys.executable))} -m espalier.cli"
    installed = shutil.which("espalier")
    try:
        is_on_path = installed is not None and os.path.samefile(installed, called)
    except OSError:
        is_on_path = False
    return "espalier" if is_on_path else path(called)


def path(of: Path) -> str:
    """A path: relative below the working directory, else absolute; quoted for a shell."""
    absolute = of.absolute()
    below = Path.cwd()
    return shlex.quote(str(absolute.relative_to(below) if absolute.is_relative_to(below) else absolute))


def example() -> str:
    """The path of the example."""
    return path(EXAMPLE.resolve())
