"""`espalier version`: which build this is, and which eksaVersion it brings."""

from __future__ import annotations

import sys
from importlib import metadata
from typing import Annotated

from cyclopts import App, Parameter

from espalier.cli import output
from espalier.releases import Releases


def text() -> str:
    """The version of this build."""
    return metadata.version("espalier")


def register(app: App) -> None:
    """Add the command to the program."""
    app.command(version)


def version(
    *,
    output_format: Annotated[
        str, Parameter(name=["--output", "-o"], help="json, yaml or jsonpath=TEMPLATE.", show_default=False)
    ] = "",
) -> None:
    """Say which version this is and which Kubernetes versions its newest release has.

    Example: `espalier version -o json`
    """
    newest = Releases.load().newest()
    facts = {"version": text(), "eksaVersion": newest.version, "kubernetesVersions": list(newest.kubernetes_versions)}
    if output_format:
        output.write_facts(facts, output_format)
    else:
        offered = ", ".join(newest.kubernetes_versions)
        sys.stdout.write(f"espalier {facts['version']}\neksaVersion {facts['eksaVersion']}\nKubernetes {offered}\n")
