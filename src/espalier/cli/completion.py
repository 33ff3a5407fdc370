"""`espalier completion SHELL`: a script that completes commands and flags."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

from cyclopts import App, Parameter


def register(app: App) -> None:
    """Add the command to the program."""

    @app.command
    def completion(shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(help="Whose completion.")]) -> None:
        """Print a completion script.

        Example: `source <(espalier completion bash)`
        """
        sys.stdout.write(app.generate_completion(shell=shell))
