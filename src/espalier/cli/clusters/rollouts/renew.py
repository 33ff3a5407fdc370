"""`espalier renew certificates`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import click

from espalier.api.identity import ClusterIdentity
from espalier.api.resource import Key
from espalier.api.text.listing import counted
from espalier.api.text.spans import span
from espalier.cli.clusters.manifests import documents
from espalier.cli.clusters.rollouts import certificates, etcd_certificates, node_certificates, rollouts
from espalier.cli.clusters.rollouts.certificates import Certificate, Component
from espalier.cli.kit import flags
from espalier.cli.kit.commands import Group
from espalier.cli.kit.connecting import connection
from espalier.cli.kit.failures import Usage
from espalier.cli.kit.printing import output
from espalier.cli.kit.printing.layout import Table
from espalier.cli.kit.printing.progress import Progress

CERTIFICATES = Table(("Certificate", "Ends", "In", "Renewed"), sentences=(3,), lists=(0,))


@click.group(cls=Group)
def renew() -> None:
    """Renew certificates of a cluster."""


@renew.command("certificates")
@click.argument("name", required=False, help="Name of the cluster, unless -f is given.")
@flags.filename(help="Manifest of the cluster; - for standard input.")
@flags.connection
@flags.choice(
    "--component",
    Component.ALL,
    help="all, control-plane (with etcd beside it), etcd (with the control plane), or kubeconfig.",
)
@flags.dry_run(help="server, also without a value: only list them.")
@click.option(
    "--replace-machines",
    is_flag=True,
    help="Also those that are upgraded in place, instead of a renewal on their nodes.",
)
@click.option("--timeout", default="1h", metavar="TIME", show_default=True, help="Time to wait, like 90s, 5m, 1h30m.")
async def renew_certificates(
    *,
    name: str | None,
    filename: Sequence[str],
    connect: flags.Connection,
    component: Component,
    dry_run: str,
    replace_machines: bool,
    timeout: str,
) -> None:
    """Renew certificates of a cluster: of its control plane with etcd and the front proxy, and of its kubeconfig.

    Control plane machines are replaced one after the other, as `espalier rollout restart NAME --control-plane` does;
    on those that are upgraded in place, kubeadm renews the certificates, and only static pods are restarted. Cluster
    API issues a new kubeconfig. Machines of an external etcd are replaced first, one after the other. It begins with a
    list of all certificates and when they end.

    \b
    Examples:
      espalier renew certificates garden --dry-run server
      espalier renew certificates -f examples/docker.yaml
      espalier renew certificates garden --component kubeconfig
    """
    if (name is None) == (not filename):
        given = f"{name} and -f" if name else "nothing"
        raise Usage(f"NAME: found {given}; allowed is the name of a cluster, or -f FILE; give one of them")
    seconds = flags.seconds(timeout)
    if name is None:
        name, connect = documents.named_in(filename, connect)
    async with connection.connect(connect) as connected:
        client = connected.client
        key = Key(connected.namespace, name)
        owner = await rollouts.cluster(client, key)
        (target,) = await rollouts.targets(client, owner, [], control_plane=True)
        etcd = await etcd_certificates.read(client, key) if certificates.has_external_etcd(owner) else None
        listed = await certificates.read(client, owner, target, etcd)
        _write(listed)
        on_nodes = target.is_in_place and not replace_machines
        with_machines = component is not Component.KUBECONFIG
        with_etcd = etcd if component in (Component.ALL, Component.ETCD) else None
        if with_machines:
            certificates.check(listed, target, datetime.now(UTC))
        if with_etcd is not None:
            etcd_certificates.check(with_etcd, target, datetime.now(UTC), replaces_in_place=replace_machines)
        elif with_machines and on_nodes:
            await node_certificates.check(client, target)
        elif with_machines:
            await rollouts.check_restart(client, [target], replaces_in_place=True)
        if dry_run == "server":
            return
        with Progress() as progress:
            if with_machines and on_nodes and with_etcd is None:
                await node_certificates.renew(client, target, timeout=seconds, progress=progress)
            elif with_machines:
                if with_etcd is not None:
                    after = await etcd_certificates.renew(client, with_etcd, target, timeout=seconds, progress=progress)
                else:
                    after = await rollouts.restart(client, [target])
                number = await rollouts.until_replaced(client, target, after, timeout=seconds, progress=progress)
                progress.say(f"{target.title}: {counted(number, 'machine')} replaced, with new certificates")
            if component in (Component.ALL, Component.KUBECONFIG):
                progress.wait("waiting for Cluster API to issue the kubeconfig")
                ends = await certificates.renew_kubeconfig(client, ClusterIdentity.of(key).capi)
                progress.say(f"the kubeconfig is valid until {ends:%Y-%m-%d}; `espalier kubeconfig {name}` prints it")


def _write(listed: Sequence[Certificate]) -> None:
    now = datetime.now(UTC)
    rows = [
        (
            part.what,
            f"{part.ends:%Y-%m-%d}" if part.ends else "not known",
            ("ended" if part.ends <= now else span((part.ends - now).total_seconds())) if part.ends else "-",
            part.renewal,
        )
        for part in listed
    ]
    output.write_table(CERTIFICATES, rows)
