"""`espalier assets build|list|prune`: real programs, images and node file systems, built on this machine."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter


def register(app: App) -> None:
    """Add the commands to the program."""
    group = App(
        name="assets",
        help="Build what real clusters are made of, from sources, into $ESPALIER_CACHE (~/.cache/espalier).",
    )
    group.command(build)
    group.command(list_, name="list")
    group.command(prune)
    app.command(group)


def build(
    *what: Annotated[str, Parameter(help="tests, nodes, a component, or one version: node-base-1.35.4.")],
    image_repository: Annotated[
        str | None, Parameter(help="Where the names of nodes' images say that they come from; else registry.k8s.io.")
    ] = None,
    dry_run: Annotated[bool, Parameter(negative="", help="Only say what would be built, and what is lacking.")] = False,
) -> None:
    """Build what is not there yet; without a name all of it. What is finished stays when it is stopped.

    Sizes and times are said beforehand. `tests` is what a management cluster runs and needs Go; `nodes` is all that
    `espalier up --nodes real` needs, and needs root and debootstrap as well.

    Example: `espalier assets build node-base-1.35.4`
    """
    from espalier.cli import assets_work  # noqa: PLC0415  other commands need not load what builds

    assets_work.build(what, image_repository, dry_run=dry_run)


def list_(
    *,
    output_format: Annotated[
        str, Parameter(name=["--output", "-o"], help="wide, json, yaml or jsonpath=TEMPLATE.", show_default=False)
    ] = "",
) -> None:
    """List what is built, what can be built and what it costs, and what is outdated.

    Example: `espalier assets list -o yaml`
    """
    from espalier.cli import assets_work  # noqa: PLC0415  other commands need not load what builds

    assets_work.list_(output_format)


def prune(
    *,
    dry_run: Annotated[bool, Parameter(negative="", help="Only say what would be removed.")] = False,
) -> None:
    """Remove what no present recipe makes, after saying what. What nodes are mounted from stays.

    Example: `espalier assets prune --dry-run`
    """
    from espalier.cli import assets_work  # noqa: PLC0415  other commands need not load what builds

    assets_work.prune(dry_run=dry_run)
