"""`espalier assets build|list|prune`: real programs, images and node file systems, built on this machine."""

from __future__ import annotations

from collections.abc import Sequence

import click

from espalier.api.version_matrix import DEFAULT_ROW, ROWS
from espalier.cli.kit import flags
from espalier.cli.kit.commands import Group


@click.group(cls=Group)
def assets() -> None:
    """Build the programs of real clusters from sources, into $ESPALIER_CACHE (~/.cache/espalier)."""


@assets.command()
@click.argument("what", nargs=-1, help="tests, flux, helm, gardener, nodes, or a component: node-base-1.35.4.")
@click.option(
    "--image-repository",
    metavar="NAME",
    help="Repository in the names of the nodes' images. Default: registry.k8s.io.",
)
@click.option(
    "--row",
    type=click.Choice(list(ROWS)),
    help="Row of versions that belong together, by its Kubernetes. Default: $ESPALIER_ROW, or " + DEFAULT_ROW + ".",
)
@click.option("--dry-run", is_flag=True, help="Only print what would be built, and what is missing.")
def build(*, what: Sequence[str], image_repository: str | None, row: str | None, dry_run: bool) -> None:
    """Build missing assets; without a name, those of `nodes`. When stopped, it keeps what is finished.

    Prints sizes and times first. `tests` is what a management cluster runs; it needs Go. `flux`, `helm` and `gardener`,
    which need Go as well, are Flux's controllers of Git repositories, Helm, and a real garden's API server and
    controllers. `nodes` is all that `espalier up --nodes real` runs; it also needs root and debootstrap.

    \b
    Example:
      espalier assets build node-base-1.35.4
      espalier assets build --row 1.37 tests
    """
    from espalier.cli.local import assets_work  # noqa: PLC0415  other commands need not load what builds

    assets_work.build(what, image_repository, row, dry_run=dry_run)


@assets.command("list")
@flags.output(wide=True, names=True)
def list_(*, output_format: str) -> None:
    """List assets: which are built, can be built (with size and time), or are outdated.

    \b
    Example:
      espalier assets list -o yaml
    """
    from espalier.cli.local import assets_work  # noqa: PLC0415  other commands need not load what builds

    assets_work.list_(output_format)


@assets.command()
@click.option("--dry-run", is_flag=True, help="Only print what would be removed.")
def prune(*, dry_run: bool) -> None:
    """Remove assets that no current recipe builds, and print which. Keeps those that nodes have mounted.

    \b
    Example:
      espalier assets prune --dry-run
    """
    from espalier.cli.local import assets_work  # noqa: PLC0415  other commands need not load what builds

    assets_work.prune(dry_run=dry_run)
