"""`espalier kubeconfig NAME`: access to a workload cluster."""

from __future__ import annotations

import os

import click

from espalier.api.capi import cluster as capi
from espalier.api.core import SECRET
from espalier.api.identity import ClusterIdentity
from espalier.api.resource import Key, Resource
from espalier.cli.kit import flags
from espalier.cli.kit.commands import Command
from espalier.cli.kit.connecting import connection
from espalier.cli.kit.failures import Failure, Usage
from espalier.cli.kit.printing import output
from espalier.clusterapi import kubeconfig as kubeconfigs
from espalier.clusters.act.secrets import kubeconfig_copies
from espalier.clusters.design.render.api_server import authenticator
from espalier.clusters.observe import adoptions
from espalier.kube.client import Client
from espalier.kube.connection.kubeconfig import Kubeconfig, kubeconfig_files
from espalier.kube.errors import Forbidden, NotFound
from espalier.kube.objects import Object


@click.command(cls=Command)
@click.argument("name", required=False, help="Name of the cluster, unless --shoot is given.")
@click.option("--aws-iam", is_flag=True, help="For AWS users (AWSIamConfig), with their own credentials.")
@click.option("--shoot", default="", metavar="NAME", help="Shoot of a garden, instead of a cluster.")
@click.option("--user", metavar="NAME", help="For this user, instead of an administrator.")
@click.option("--group", "groups", multiple=True, metavar="NAME", help="Group of --user; may be repeated.")
@click.option("--ttl", default="", metavar="TIME", help="Validity for --user or --shoot, 10m to 24h. Default: 1h.")
@click.option("--exec", "by_plugin", is_flag=True, help="For --user: kubectl calls espalier for certificates.")
@click.option("--credential", is_flag=True, hidden=True, help="Print what kubectl reads from --exec.")
@click.option("--as", "acting_as", metavar="USER", help="As the administrator acting as this user.")
@click.option("--as-group", "acting_groups", multiple=True, metavar="NAME", help="Group of --as; may be repeated.")
@click.option("--merge", is_flag=True, help="Add it to $KUBECONFIG or ~/.kube/config instead of printing it.")
@click.option("--server", default="", metavar="URL", help="Address for --shoot, if you can't resolve its DNS name.")
@flags.connection
async def kubeconfig(
    name: str | None,
    aws_iam: bool,
    *,
    shoot: str,
    user: str | None,
    groups: tuple[str, ...],
    ttl: str,
    by_plugin: bool,
    credential: bool,
    acting_as: str | None,
    acting_groups: tuple[str, ...],
    merge: bool,
    server: str,
    connect: flags.Connection,
) -> None:
    """Print the kubeconfig of a workload cluster, or of a shoot of a garden.

    It is read from a Secret in the Cluster's namespace. If the manager may not copy it there, it is read from
    eksa-system, which needs permission. With --aws-iam, it is always read from eksa-system, contains no credentials,
    and needs the program aws-iam-authenticator.

    With --user, the kubeconfig has a new certificate for that user and --group, signed by the cluster's authority,
    which ends after --ttl and can't be revoked before. What they may do is decided by roles in the cluster. It needs
    permission to read the administrator's kubeconfig. With --exec, it has no certificate: kubectl calls espalier for
    a new one whenever it needs one.

    With --as, it has the administrator's certificate and acts as another user, to try what that user may do.

    With --merge, it becomes a context of your kubeconfig; the current context and all others stay as they are.

    That of a shoot has a new certificate of the shoot's own authority, for an administrator, which expires after --ttl
    and can't be revoked before. It needs permission to read the Shoot and its ShootState. Its address is the DNS name
    of the shoot's API server. Where that does not resolve, as in the garden of `espalier demo garden`, which has no
    DNS, give --server with an address that reaches it; the demo prints its own.

    \b
    Examples:
      espalier kubeconfig garden > garden.kubeconfig
      espalier kubeconfig garden --user jane --group dev --ttl 8h > jane.yaml
      espalier kubeconfig garden --merge
      espalier kubeconfig garden --as jane --as-group dev > try.yaml
      espalier kubeconfig --shoot apple -n garden-dev --ttl 30m > apple.kubeconfig
    """
    _check_flags(name, shoot, user, ttl=ttl, server=server, aws_iam=aws_iam)
    if acting_groups and acting_as is None:
        raise Usage("--as-group: found it without --as USER, for which it is; give both, or omit it")
    for flag, has_own in (("--user", user is not None), ("--exec", by_plugin), ("--aws-iam", aws_iam)):
        if has_own and acting_as is not None:
            raise Usage(f"--as: found it beside {flag}, which has a user of its own; omit one of them")
    if acting_as == "":  # of an unset variable, say: without a user it would be the administrator
        raise Usage("--as: found '', allowed is the name of a user")
    if "" in acting_groups:
        raise Usage("--as-group: found '', allowed is the name of a group")
    if merge and credential:
        raise Usage("--merge: found it beside --credential, which is no kubeconfig; omit one of them")
    for flag, given in (("--group", groups), ("--exec", by_plugin), ("--credential", credential)):
        if given and user is None:
            raise Usage(f"{flag}: found it without --user NAME, for which it is; give both, or omit it")
    if shoot:
        # What signs certificates is loaded only here.
        from espalier.cli.shoots import shoot_kubeconfig  # noqa: PLC0415
        from espalier.shoots.gardener_api.transport import GardenTransport  # noqa: PLC0415

        request = shoot_kubeconfig.Request.of(shoot, ttl, server)
        async with connection.connect(connect, GardenTransport) as connected:
            content = await request.send(connected.client, connected.namespace)
        _give(_acting(content, acting_as, acting_groups), merge=merge)
        return
    if name is None:
        raise Usage("NAME must be given: the name of a cluster, or --shoot NAME; see `espalier kubeconfig --help`")
    async with connection.connect(connect) as connected:
        key = Key(connected.namespace, name)
        if user is not None:
            from espalier.cli.clusters.access import user_kubeconfig  # noqa: PLC0415  signs, which others need not load

            person = user_kubeconfig.ClusterUser.of(user, groups, ttl)
            form = user_kubeconfig.Form.of(exec_plugin=by_plugin, credential=credential)
            content = await person.content(await read(connected.client, key), key, form, connect)
        else:
            content = await (read_for_aws if aws_iam else read)(connected.client, key)
    _give(_acting(content, acting_as, acting_groups), merge=merge)


def _acting(content: bytes, user: str | None, groups: tuple[str, ...]) -> bytes:
    return content if user is None else Kubeconfig.parse(content).impersonating(user, groups).to_bytes()


def _give(content: bytes, *, merge: bool) -> None:
    """Print a kubeconfig, or add it to the file that kubectl writes to."""
    if not merge:
        output.write_data(content.decode())
        return
    file = kubeconfig_files(None, os.environ)[0]
    config = Kubeconfig.parse(content).for_merge(file)
    config.merge_into(file, switch=False)
    output.say(f"context {config.current_context} is in {file}", stderr=True)


def _check_flags(name: str | None, shoot: str, user: str | None, *, ttl: str, server: str, aws_iam: bool) -> None:
    """Raise `Usage` for flags that exclude or need each other."""
    if name is not None and shoot:
        raise Usage(f"found {name} and --shoot {shoot}; allowed is the name of a cluster, or --shoot NAME")
    if shoot and aws_iam:
        raise Usage("--aws-iam: found it beside --shoot, which has no AWSIamConfig; omit one of them")
    if server and not shoot:
        raise Usage("--server: found it without --shoot NAME, for which it is; omit it")
    if ttl and not shoot and user is None:
        flags.seconds(ttl, "--ttl")
        raise Usage(f"--ttl: found {ttl} without --user NAME or --shoot NAME; add one of them, or omit --ttl")
    if user is not None and (shoot or aws_iam):
        raise Usage(
            f"--user: found it beside {'--shoot' if shoot else '--aws-iam'}, which has its own; omit one of them"
        )


async def read(client: Client, key: Key) -> bytes:
    """The kubeconfig of a cluster: the copy, else the one that Cluster API made. Raises `Failure` without any."""
    cluster = ClusterIdentity.of(key)
    beside, source = kubeconfigs.secret_key(key), kubeconfigs.secret_key(cluster.capi)
    copy, hidden = await _get(client, SECRET, beside)
    content = kubeconfigs.content(copy) if copy is not None and kubeconfig_copies.is_copy(copy) else None
    if content is not None:
        return content
    made, refused = await _get(client, capi.Cluster.resource, cluster.capi)
    untold: list[str] = []
    adopted = await adoptions.read(client, untold.append) if made is not None else None
    if adopted is not None and made is not None and adopted.owner_of(capi.Cluster.resource, made) == key:
        secret, refused = await _get(client, SECRET, source)
        content = kubeconfigs.content(secret) if secret is not None else None
    if content is not None:
        return content
    if untold:
        raise Failure(f"no kubeconfig of cluster {key}: no copy is in Secret {beside}, and {untold[0]}")
    if hidden:
        advice = f"ask the owner of namespace {key.namespace} for a Role that allows getting this Secret"
        raise Failure(f"the kubeconfig of cluster {key} can't be read from Secret {beside}: {hidden}; {advice}")
    if refused is not None:
        raise Failure(f"no kubeconfig of cluster {key}: no copy is in Secret {beside}, and {refused}")
    raise Failure(
        f"there is no Secret {beside.name} of cluster {key.name} in namespace {key.namespace}: "
        "the cluster does not exist there, "
        "or its control plane is not initialized yet (see `espalier get clusters -A`)"
    )


async def read_for_aws(client: Client, key: Key) -> bytes:
    """The kubeconfig of a cluster for users of AWS. Raises `Failure` without any."""
    cluster = ClusterIdentity.of(key)
    source = Key(cluster.capi.namespace, authenticator.kubeconfig_name(cluster.capi.name))
    secret, refused = await _get(client, SECRET, source)
    content = kubeconfigs.content(secret) if secret is not None else None
    untold: list[str] = []
    adopted = await adoptions.read(client, untold.append) if content is not None else None
    if content is not None and secret is not None and adopted is not None and adopted.owner_of(SECRET, secret) == key:
        return content
    if untold:
        raise Failure(f"the kubeconfig for users of AWS can't be read from Secret {source}: {untold[0]}")
    if refused is not None:
        advice = f"ask the owner of namespace {source.namespace} for a Role that allows getting this Secret"
        raise Failure(f"the kubeconfig for users of AWS can't be read from Secret {source}: {refused}; {advice}")
    raise Failure(
        f"there is no Secret {source} of cluster {key}: the cluster has no AWSIamConfig in "
        "spec.identityProviderRefs, or its control plane is not initialized yet (see `espalier get clusters -A`)"
    )


async def _get(client: Client, resource: Resource, key: Key) -> tuple[Object | None, Forbidden | None]:
    """The object, if it exists and may be read; otherwise the refusal, if there is one."""
    try:
        return await client.get(resource, key.name, key.namespace), None
    except NotFound as error:
        if error.is_of_kind and resource == capi.Cluster.resource:
            raise
        return None, None
    except Forbidden as refusal:
        return None, refusal
