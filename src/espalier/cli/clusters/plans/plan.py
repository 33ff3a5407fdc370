"""`espalier plan`: what a manifest, another release or another manager would change."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from espalier.cli.clusters.manifests import documents, other_kinds
from espalier.cli.kit import flags
from espalier.cli.kit.commands import Command
from espalier.cli.kit.connecting import connection
from espalier.cli.kit.failures import Exit, Usage, explain, printing
from espalier.cli.kit.printing import output
from espalier.clusters.design.drift.gate import Isolation

NOTHING, CHANGES, REFUSED = 0, 1, 2
"""Exit codes, as of `kubectl diff`."""
EXIT_CODES = """
\b
Exit codes: 0 nothing would change · 1 something would · 2 refused, failed,
or a wrong command line · 3 no API server answered · 4 timed out ·
130 interrupted
"""


@click.command(cls=Command, epilog=EXIT_CODES)
@flags.filename(help="Manifest of one or several clusters, or a folder; - for standard input. Repeatable.")
@click.option(
    "--eksa-version",
    default="",
    metavar="VERSION",
    help="Plan an update to this release; without -f, of all clusters.",
)
@click.option(
    "--move-release/--keep-release",
    default=None,
    help="Plan `espalier upgrade cluster -f FILE` with this flag. Default: plan `kubectl apply -f FILE`.",
)
@click.option("--manager", is_flag=True, help="Plan an upgrade of the manager to this build, with unchanged clusters.")
@flags.choice("--isolation", Isolation.LAYERS, help="The manager's --isolation setting.")
@flags.all_namespaces
@flags.connection
@flags.releases
@flags.output()
async def plan(
    *,
    filename: Sequence[str],
    eksa_version: str,
    move_release: bool | None,
    manager: bool,
    isolation: Isolation,
    all_namespaces: bool,
    connect: flags.Connection,
    releases: Path | None,
    output_format: str,
) -> int:
    """Show what would change: objects field by field, machines and why, how long, and what would be refused.

    Changes nothing.

    \b
    Example:
      espalier plan -f examples/docker.yaml
    """
    # Other commands need not load the code for validation and rendering.
    from espalier.cli.clusters import chosen_release  # noqa: PLC0415
    from espalier.cli.clusters.manifests import preflight  # noqa: PLC0415
    from espalier.cli.clusters.plans import plan_text  # noqa: PLC0415
    from espalier.cli.clusters.plans.planning import PlanRequest  # noqa: PLC0415
    from espalier.providers.registry import PROVIDERS  # noqa: PLC0415

    try:
        # Flags that exclude each other.
        if move_release is not None and (eksa_version or not filename):
            flag = "--move-release" if move_release else "--keep-release"
            raise Usage(f"{flag} plans `espalier upgrade cluster -f FILE`: give -f, and omit --eksa-version")
        if not filename and not eksa_version and not manager:
            raise Usage("give a manifest (-f FILE), a release (--eksa-version V), or --manager")
        if manager and (filename or eksa_version):
            raise Usage("--manager plans with unchanged clusters: omit -f and --eksa-version")
        # As `espalier upgrade cluster` checks a manifest, so that both refuse the same.
        documents_, problems, others = documents.examined(filename, several=True) if filename else ([], [], [])
        pushed_as = chosen_release.own_version() if move_release is not None else ""
        await preflight.check(PROVIDERS, connect, documents_, problems, pushed_as=pushed_as)
        other_kinds.say(others)
        asked = PlanRequest(PROVIDERS, documents_, eksa_version, isolation, releases, moves=move_release)
        async with connection.connect(connect) as connected:
            namespace = None if all_namespaces else connected.namespace
            if manager:
                planned = await asked.of_manager(connected.client, namespace)
            elif filename:
                planned = await asked.of_manifest(connected.client, connected.namespace)
            else:
                planned = await asked.of_release(connected.client, namespace)
        with printing():  # the reader may close the pipe and still want the exit code
            if output_format:
                output.write_facts(plan_text.facts(planned), output_format, rows="clusters")
            else:
                plan_text.write(planned)
    except Exception as error:
        explained = explain(error)
        if explained is None:
            raise
        code, text = explained
        output.error(text)
        return REFUSED if code is Exit.REFUSED else code
    if any(preview.refusals for previews in planned for preview in previews if preview is not None):
        return REFUSED
    return (
        NOTHING
        if all(preview.is_empty for previews in planned for preview in previews if preview is not None)
        else CHANGES
    )
