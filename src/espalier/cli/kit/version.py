"""`espalier version`: which build this is, and which eksaVersion it brings."""

from __future__ import annotations

import click

from espalier.cli.kit import distribution, flags
from espalier.cli.kit.commands import Command
from espalier.cli.kit.printing import output
from espalier.releases import Releases


@click.command(cls=Command)
@flags.output()
def version(*, output_format: str) -> None:
    """Print the version, and the Kubernetes versions of its newest release.

    \b
    Example:
      espalier version -o json
    """
    newest = Releases.load().newest()
    facts = {
        "version": distribution.version(),
        "eksaVersion": newest.version,
        "kubernetesVersions": list(newest.kubernetes_versions),
    }
    if output_format:
        output.write_facts(facts, output_format)
    else:
        offered = ", ".join(newest.kubernetes_versions)
        output.say(f"espalier {facts['version']}\neksaVersion {facts['eksaVersion']}\nKubernetes {offered}")
