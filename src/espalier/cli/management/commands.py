"""`espalier create|upgrade|delete cluster`: of workload clusters, and of management clusters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from espalier.api.resource import Key
from espalier.cli.clusters import lifecycle
from espalier.cli.clusters.manifests import documents, other_kinds
from espalier.cli.kit import flags
from espalier.cli.kit.commands import Group
from espalier.cli.kit.connecting import connection
from espalier.cli.kit.failures import Failure, Usage
from espalier.cli.kit.printing import output
from espalier.cli.kit.printing.layout import Table
from espalier.cli.management import self_managed

if TYPE_CHECKING:
    from espalier.cli.management.own_infrastructure import Given

COMPONENTS = Table(("Component", "Found", "Wanted", "Change"))


def components_of(version: str) -> Table:
    """The table with the versions of a release beside those that run; its title is written as it is."""
    return replace(COMPONENTS.named("Component", "Found", version, "Change"), as_written=(2,))


MANIFEST = "Manifest file, or a folder of them; - for standard input. Repeatable."

timeout_ = click.option(
    "--timeout", default="1h", metavar="TIME", show_default=True, help="Time to wait, like 90s, 5m, 1h30m."
)
wait_ = click.option("--wait/--no-wait", default=True, show_default=True, help="Wait until it is done.")
dry_run_ = flags.dry_run(
    help="server, also without a value: the server checks everything and changes nothing. Of a management cluster: "
    "prints each step."
)


bootstrap_kubeconfig_ = click.option(
    "--bootstrap-kubeconfig",
    type=flags.FILE,
    metavar="FILE",
    help="Of a management cluster: use the local environment, or the management cluster, with this kubeconfig as the "
    "bootstrap.",
)
components_ = click.option(
    "--components",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Of a management cluster on your own infrastructure: a folder with the components of Cluster API, its "
    "providers and cert-manager: a local repository of clusterctl, or a file for each.",
)
image_ = click.option(
    "--image",
    default="",
    metavar="IMAGE",
    help="With --components: Espalier's image in the management cluster. Default: the one that runs, in the bootstrap "
    "or in the cluster.",
)
flux_manifests_ = click.option(
    "--flux-manifests",
    type=click.Path(exists=True, path_type=Path),
    help="For spec.gitOpsRef: a file or folder with Flux's manifests, as `flux install --export` writes them. "
    "Default, for simulated machines: a stand-in for Flux.",
)


push_ = click.option(
    "--push",
    is_flag=True,
    help="Of a cluster that comes from Git: commit the change to the repository instead, without force; Flux applies "
    "it. Credentials as for spec.gitOpsRef: EKSA_GITHUB_TOKEN, or EKSA_GIT_PRIVATE_KEY and EKSA_GIT_KNOWN_HOSTS.",
)


nodes_ = click.option(
    "--nodes",
    type=flags.OneOf(("simulated", "real")),
    default="simulated",
    show_default=True,
    help="Machines of a management cluster: simulated, or real nodes on this Linux machine, as root.",
)
node_addresses_ = click.option(
    "--node-addresses",
    default="",
    metavar="RANGE",
    help="IPv4 range of real nodes and their control planes. Default: as for `espalier up`.",
)
boot_seconds_ = click.option("--boot-seconds", type=float, default=0.2, hidden=True)


@click.group(cls=Group)
def create() -> None:
    """Create a cluster."""


@click.group(cls=Group)
def upgrade() -> None:
    """Upgrade a cluster."""


@click.group(cls=Group)
def delete() -> None:
    """Delete a cluster."""


@create.command("cluster")
@flags.filename(required=True, help=MANIFEST)
@other_kinds.flag("apply")
@flags.connection
@timeout_
@wait_
@dry_run_
@bootstrap_kubeconfig_
@components_
@image_
@flux_manifests_
@push_
@nodes_
@node_addresses_
@boot_seconds_
@flags.output(names=True)
async def create_cluster(
    *,
    filename: Sequence[str],
    all_kinds: bool,
    connect: flags.Connection,
    timeout: str,
    wait: bool,
    dry_run: str,
    bootstrap_kubeconfig: Path | None,
    components: Path | None,
    image: str,
    flux_manifests: Path | None,
    push: bool,
    nodes: str,
    node_addresses: str,
    boot_seconds: float,
    output_format: str,
) -> None:
    """Create the cluster that a manifest describes, wait until it is ready, and write its kubeconfig.

    A cluster that names itself as its management cluster, or none, becomes a management cluster. A bootstrap on this
    machine creates it, with simulated machines or real nodes (docs/real-nodes.md). Whatever ends the command, the same
    command goes on.

    \b
    Examples:
      espalier create cluster -f examples/docker.yaml --timeout 5m
      espalier create cluster -f examples/management.yaml
      espalier create cluster -f examples/management.yaml --nodes real
    """
    seconds = flags.seconds(timeout)
    manifest = documents.examined(filename)
    _check_push(push, output_format, all_kinds=all_kinds)
    given = _given(components, image)
    if components is not None and bootstrap_kubeconfig is None:
        raise Usage("--components: a management cluster is the bootstrap: give its --bootstrap-kubeconfig FILE")
    _check_nodes(nodes, node_addresses, bootstrap_kubeconfig, is_management=self_managed.is_self_managed(manifest))
    if not self_managed.is_self_managed(manifest):
        if components is not None:
            raise Usage("--components: only management clusters get Cluster API: omit the flag")
        if flux_manifests is not None:
            raise Usage("--flux-manifests: only management clusters get Flux: omit the flag")
        await lifecycle.push(
            manifest, connect, seconds, wait, dry_run, output_format, creating=True, all_kinds=all_kinds, by_git=push
        )
        return
    if push:
        raise Usage("--push: a management cluster with spec.gitOpsRef is always pushed: omit the flag")
    self_managed.check_flags(wait=wait, output_format=output_format, all_kinds=all_kinds)
    from espalier.cli.management import creating  # noqa: PLC0415  with all of rendering: not for help
    from espalier.cli.management.bootstraps import Nodes  # noqa: PLC0415
    from espalier.providers.registry import PROVIDERS  # noqa: PLC0415

    other_kinds.say(manifest.others, "; apply it to the new cluster")
    await creating.create(
        manifest.documents,
        manifest.problems,
        connect,
        timeout=seconds,
        dry_run=dry_run == "server",
        nodes=Nodes(boot_seconds, nodes == "real", node_addresses),
        providers=PROVIDERS,
        bootstrap_kubeconfig=bootstrap_kubeconfig,
        flux_manifests=flux_manifests,
        given=given,
    )


@upgrade.command("cluster")
@flags.filename(required=True, help=MANIFEST)
@other_kinds.flag("apply")
@click.option(
    "--move-release/--keep-release",
    default=None,
    help="Move a cluster of another release to the release of this espalier, or keep its own, if the manifest names "
    "none. Default: asks on a terminal, required elsewhere.",
)
@flags.connection
@timeout_
@wait_
@dry_run_
@push_
@components_
@image_
@flags.output(names=True)
async def upgrade_cluster(
    *,
    filename: Sequence[str],
    all_kinds: bool,
    move_release: bool | None,
    connect: flags.Connection,
    timeout: str,
    wait: bool,
    dry_run: str,
    push: bool,
    components: Path | None,
    image: str,
    output_format: str,
) -> None:
    """Upgrade or scale a cluster to what its manifest says.

    A management cluster that `espalier create cluster` created is upgraded with what runs in it: Cluster API and
    Espalier first, then its control plane, then its workers. Its workload clusters stay as they are.

    A cluster of another release is moved to the release of this espalier, which may replace machines. If the manifest
    does not name that release, it asks first. `espalier plan` shows what would be replaced.

    \b
    Examples:
      espalier upgrade cluster -f examples/docker.yaml
      espalier upgrade cluster -f examples/docker.yaml --keep-release
    """
    seconds = flags.seconds(timeout)
    manifest = documents.examined(filename)
    _check_push(push, output_format, all_kinds=all_kinds)
    given = _given(components, image)
    if self_managed.is_self_managed(manifest):
        from espalier.cli.management import changing  # noqa: PLC0415  with all of rendering: not for help

        if await changing.is_created(manifest.documents, connect):
            self_managed.check_flags(wait=wait, output_format=output_format, all_kinds=all_kinds)
            if move_release is False:
                raise Usage("--keep-release: a management cluster gets the release of this espalier: omit the flag")
            await changing.upgrade(
                manifest.documents,
                manifest.problems,
                connect,
                timeout=seconds,
                dry_run=dry_run == "server",
                by_git=push,
                given=given,
            )
            return
    if given is not None:
        raise Usage("--components: only management clusters that a command created get Cluster API: omit the flag")
    await lifecycle.push(
        manifest,
        connect,
        seconds,
        wait,
        dry_run,
        output_format,
        creating=False,
        move_release=move_release,
        all_kinds=all_kinds,
        by_git=push,
    )


def _given(components: Path | None, image: str) -> Given | None:
    """The components in files. Raises `Usage` for an image of nothing."""
    if components is None:
        if image:
            raise Usage("--image: allowed with --components alone")
        return None
    from espalier.cli.management.own_infrastructure import Given  # noqa: PLC0415  with all of rendering: not for help

    return Given(components, image)


def _check_nodes(nodes: str, addresses: str, bootstrap: Path | None, *, is_management: bool) -> None:
    """Raises `Usage` for flags about nodes that have no meaning."""
    if nodes == "real" and not is_management:
        raise Usage("--nodes: only management clusters are created with their machines: omit the flag")
    if nodes == "real" and bootstrap is not None:
        raise Usage("--nodes: with --bootstrap-kubeconfig, the machines are those of that environment: omit the flag")
    if addresses and nodes != "real":
        raise Usage("--node-addresses: allowed with --nodes real alone")


def _check_push(push: bool, output_format: str, *, all_kinds: bool) -> None:
    """Raises `Usage` for a flag that has no meaning for a commit."""
    if push and output_format:
        raise Usage("--output: with --push, Flux writes the objects: omit the flag")
    if push and all_kinds:
        raise Usage("--all-kinds: --push commits the objects of the cluster alone: omit either")


@upgrade.group(cls=Group)
def plan() -> None:
    """Show what an upgrade would change."""


@plan.command("management-components")
@click.argument("name", required=False, help="Name of the management cluster, for its kubeconfig in this folder.")
@flags.connection
@click.option("--release", default="", metavar="VERSION", help="eksaVersion. Default: the newest of this build.")
@flags.releases
@flags.output()
async def plan_components(
    name: str | None, *, connect: flags.Connection, release: str, releases: Path | None, output_format: str
) -> None:
    """Show the versions of Cluster API, its providers, cert-manager and Espalier: those that run, and a release's.

    \b
    Examples:
      espalier upgrade plan management-components
      espalier upgrade plan management-components management
    """
    from espalier.cli.management import access  # noqa: PLC0415  not for help
    from espalier.cli.management.components import component_versions  # noqa: PLC0415  not for help
    from espalier.releases import Releases, UnknownRelease  # noqa: PLC0415

    offered = Releases.load(releases)
    try:
        chosen = offered.release(release) if release else offered.newest()
    except UnknownRelease as error:
        raise Failure(f"--release: {error}") from None
    if name is None:
        async with connection.connect(connect) as connected:
            deployments = await component_versions.read(connected.client)
    else:
        client = await access.reached(Key(connect.namespace or "default", name), connect)
        try:
            deployments = await component_versions.read(client)
        finally:
            await client.close()
    rows = component_versions.compared(deployments, chosen.bundles.spec.versions_bundles[-1])
    if output_format:
        facts = [{"component": row.title, "found": row.present, "wanted": row.wanted} for row in rows]
        output.write_facts({"release": chosen.version, "components": facts}, output_format, rows="components")
        return
    output.write_table(
        components_of(chosen.version),
        [(row.title, row.present or "nothing", row.wanted or "not said", row.change) for row in rows],
    )
    if not any(row.present for row in rows):
        output.say_wrapped(
            "\nNothing of it runs as a Deployment: the local environment has it in one process. Elsewhere, install it "
            "(docs/install.md).",
            stderr=True,
        )


@upgrade.command("management-components")
@click.argument("name", help="Name of the management cluster.")
@flags.connection
@timeout_
@dry_run_
@components_
@image_
async def upgrade_components(
    name: str, *, connect: flags.Connection, timeout: str, dry_run: str, components: Path | None, image: str
) -> None:
    """Upgrade Cluster API and Espalier in a management cluster to the release of this espalier; no machine changes.

    \b
    Examples:
      espalier upgrade management-components management --dry-run server
      espalier upgrade management-components management
      espalier upgrade management-components management --components DIR
    """
    from espalier.cli.management import changing  # noqa: PLC0415  with all of rendering: not for help

    await changing.upgrade_components(
        name,
        connect,
        timeout=flags.seconds(timeout),
        dry_run=dry_run == "server",
        given=_given(components, image),
    )


@delete.command("cluster")
@click.argument("name", required=False, help="Name of the cluster, unless -f is given.")
@flags.filename(help=MANIFEST)
@other_kinds.flag("delete")
@flags.connection
@timeout_
@wait_
@dry_run_
@bootstrap_kubeconfig_
@push_
async def delete_cluster(
    name: str | None,
    *,
    filename: Sequence[str],
    all_kinds: bool,
    connect: flags.Connection,
    timeout: str,
    wait: bool,
    dry_run: str,
    bootstrap_kubeconfig: Path | None,
    push: bool,
) -> None:
    """Delete a cluster and everything that was made for it; with -f also the objects of the manifest that it links.

    A management cluster that was created on this machine is moved back to a bootstrap, which deletes it; it must not
    manage clusters any more. So is one whose creation did not end.

    Other objects of the manifest stay, unless --all-kinds is given. Namespaces and CustomResourceDefinitions always
    stay, because others may have objects in them.

    A cluster that comes from Git is deleted with --push: its files leave the repository, and Flux deletes it. Of a
    management cluster they leave it first.

    \b
    Examples:
      espalier delete cluster -f examples/docker.yaml
      espalier delete cluster garden --push
    """
    if (name is None) == (not filename):
        raise Usage("name either one cluster or a manifest: `espalier delete cluster NAME`, or `-f FILE`")
    if all_kinds and not filename:
        raise Usage("--all-kinds deletes objects of a manifest: give -f FILE")
    if all_kinds and not wait and dry_run == "none":
        raise Usage("--all-kinds deletes other objects once the cluster, which may need them, is gone: omit --no-wait")
    _check_push(push, "", all_kinds=all_kinds)
    seconds = flags.seconds(timeout)
    manifest = documents.examined(filename) if name is None else None
    if manifest is None or self_managed.is_self_managed(manifest):
        called = documents.cluster_of(manifest.documents).name if manifest is not None else name or ""
        from espalier.cli.management import deleting  # noqa: PLC0415  with all of rendering: not for help

        target = await deleting.meant(called, connect, bootstrap_kubeconfig)
        if target is not None:
            self_managed.check_flags(wait=wait, output_format="", all_kinds=all_kinds)
            await deleting.delete(*target, connect, timeout=seconds, dry_run=dry_run == "server", by_git=push)
            return
    await lifecycle.delete_cluster(
        name, manifest, connect, seconds, all_kinds=all_kinds, wait=wait, dry_run=dry_run, by_git=push
    )
