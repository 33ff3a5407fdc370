"""`espalier move`: take clusters to another management cluster, or into a folder and back from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import click

from espalier.api.eksa.cluster import Cluster
from espalier.api.resource import Key
from espalier.api.text.listing import counted, first
from espalier.cli.clusters.git import from_git
from espalier.cli.clusters.moves.lost_source import answers
from espalier.cli.clusters.moves.move_judge import ClusterJudge
from espalier.cli.kit import distribution, flags
from espalier.cli.kit.commands import Command
from espalier.cli.kit.connecting import connection
from espalier.cli.kit.connecting.connection import Connected
from espalier.cli.kit.failures import Damaged, Failure, Usage
from espalier.cli.kit.printing import output
from espalier.cli.kit.printing.progress import Progress
from espalier.kube.client import Client
from espalier.kube.errors import NotFound
from espalier.moving import backup, folder
from espalier.moving.mover import Judge, Mover, Refused
from espalier.moving.restore import Restore
from espalier.moving.sides import Side
from espalier.runtime.clock import SystemClock

EXIT_CODES = """
\b
Exit codes: 0 done · 1 refused or failed (the reason is on standard error) ·
2 wrong command line · 3 no API server answered · 4 timed out ·
5 the folder is missing or damaged · 130 interrupted
"""


@click.command(cls=Command, epilog=EXIT_CODES)
@click.option("--to-kubeconfig", type=flags.FILE, metavar="FILE", help="Kubeconfig of the target.")
@click.option("--to-context", metavar="NAME", help="Context within it.")
@click.option(
    "--to-folder",
    type=flags.FILE,
    metavar="DIR",
    help="Copy the clusters of all namespaces, or of that of --namespace, into a new folder, and leave them where they "
    "are. The folder around it must exist. It contains their Secrets: private keys, credentials.",
)
@click.option(
    "--from-folder",
    type=flags.FILE,
    metavar="DIR",
    help="Restore clusters whose management cluster is lost, to the one of --kubeconfig.",
)
@click.option(
    "--source-is-lost",
    is_flag=True,
    help="With --from-folder: nobody acts on the clusters any more, and nobody will. Two management clusters would "
    "replace each other's machines.",
)
@click.option(
    "--cluster",
    "names",
    multiple=True,
    metavar="NAME",
    help="Cluster to move. Repeatable. Default: all.",
)
@click.option("--back", is_flag=True, help="Take back a move that has not handed over yet, or an interrupted restore.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Check everything, print the objects that would be moved or copied, write nothing.",
)
@flags.connection
async def move(
    *,
    to_kubeconfig: Path | None,
    to_context: str | None,
    to_folder: Path | None,
    from_folder: Path | None,
    source_is_lost: bool,
    names: Sequence[str],
    back: bool,
    dry_run: bool,
    connect: flags.Connection,
) -> None:
    """Move clusters to another management cluster. Their machines and what runs there are not touched.

    Whatever ends the command, the same command goes on with the move; with --back it is taken back, until the source
    has handed a cluster over. docs/moving.md says what is moved, and what a folder is good for.

    \b
    Examples:
      espalier move --to-kubeconfig new.kubeconfig --cluster garden --dry-run
      espalier move --to-kubeconfig new.kubeconfig --cluster garden
      espalier move --to-folder monday
      espalier move --from-folder monday --kubeconfig new.kubeconfig
    """
    from espalier.providers.registry import PROVIDERS  # noqa: PLC0415  with all of rendering: not for help

    ends = {"--to-kubeconfig": to_kubeconfig, "--to-folder": to_folder, "--from-folder": from_folder}
    if (given := [name for name, value in ends.items() if value is not None]) and len(given) > 1:
        raise Usage(f"{' and '.join(given)}: give one of them")
    if not given:
        raise Usage(f"where to? Give one of {', '.join(ends)}")
    if back and dry_run:
        raise Usage("--dry-run shows a move: omit it, or --back")
    if back and to_folder:
        raise Usage("--to-folder changes nothing that could be taken back: omit --back")
    if source_is_lost and not from_folder:
        raise Usage("--source-is-lost is about --from-folder: omit it")
    if to_context is not None and to_kubeconfig is None:
        raise Usage("--to-context is about --to-kubeconfig: omit it, or name the kubeconfig")
    judge = ClusterJudge(PROVIDERS)
    async with connection.connect(connect) as near:
        with Progress() as progress, _explained():
            if to_folder is not None:
                await _to_folder(near, connect, to_folder, judge, names, progress, dry_run=dry_run)
            elif from_folder is not None:
                await _from_folder(
                    near,
                    connect.namespace,
                    from_folder,
                    judge,
                    names,
                    progress,
                    back=back,
                    dry_run=dry_run,
                    is_lost=source_is_lost,
                )
            elif to_kubeconfig is not None:
                async with connection.connect(flags.Connection(to_kubeconfig, to_context)) as far:
                    source = await _side(near.client, "the source")
                    target = await _side(far.client, f"the target ({to_kubeconfig})")
                    mover = Mover(source, target, judge, progress.say)
                    keys = await _keys(near, names)
                    left = [] if back else await _left_in_git(near.client, keys)
                    await _move(mover, keys, back=back, dry_run=dry_run)
                    for text in left if not dry_run else ():
                        progress.say(text, sign="[yellow]![/]")


async def _move(mover: Mover | Restore, keys: Sequence[Key], *, back: bool, dry_run: bool) -> None:
    if back:
        await mover.take_back(keys)
    elif dry_run:
        _show(await mover.check(keys))
    elif isinstance(mover, Mover):
        await mover.move(keys)
    else:
        await mover.restore(keys)


async def _left_in_git(client: Client, keys: Sequence[Key]) -> list[str]:
    """A sentence for each of these clusters that came from Git. Raises `Failure` for those that Flux still applies."""
    left, problems = [], []
    for key in keys:
        with suppress(NotFound):  # it has moved, or the move says that there is none
            cluster = await client.get(Cluster.resource, key.name, key.namespace)
            try:
                left.append(await from_git.check_move(client, cluster))
            except Failure as failure:
                problems.append(str(failure))
    if problems:
        raise Failure("\n".join(problems))
    return [text for text in left if text]


async def _to_folder(
    near: Connected,
    connect: flags.Connection,
    path: Path,
    judge: Judge,
    names: Sequence[str],
    progress: Progress,
    *,
    dry_run: bool,
) -> None:
    if not folder.is_free(path):
        raise Failure(f"--to-folder: {path} exists, and is not empty: name a new folder")
    if not path.absolute().parent.is_dir():
        raise Failure(
            f"--to-folder: found {path}, but there is no folder {path.parent}: create it, or name another one"
        )
    side = await _side(near.client, "the source")
    keys = await _keys(near, names) if names else await _managed(near.client, connect.namespace)
    taken = await backup.take(side, judge, keys, progress.say)
    if dry_run:
        counts = f"{counted(len(taken.items), 'object')} of {counted(len(taken.clusters), 'cluster')}"
        names_ = (f"  {item.name}" for item in sorted(taken.items, key=lambda item: item.place))
        output.say("\n".join([f"would be written: {counts}", *names_]))
    elif taken.clusters:
        access = connection.access_of(connect)
        index = folder.Index(
            format=folder.FORMAT,
            release=f"espalier {distribution.version()}",
            source=side.uid,
            taken=SystemClock().now().isoformat(timespec="seconds").replace("+00:00", "Z"),
            clusters=[folder.Named(*key) for key in taken.clusters],
            objects=[],
            left_out=[folder.Named(*key, why) for key, why in taken.left_out.items()],
            server=access.server,
            authority=(access.certificate_authority or b"").decode(),
            infrastructure=side.infrastructure,
        )
        folder.write(path, index, taken.items)
        progress.say(
            f"{path} has {counted(len(taken.clusters), 'cluster')}; keep it where only administrators can read it"
        )
    if taken.left_out:
        of = len(taken.clusters) + len(taken.left_out)
        raise Failure(
            "\n".join(
                [f"not in the folder: {len(taken.left_out)} of {counted(of, 'cluster')}:", *taken.left_out.values()]
            )
        )


async def _from_folder(
    near: Connected,
    namespace: str | None,
    path: Path,
    judge: Judge,
    names: Sequence[str],
    progress: Progress,
    *,
    back: bool,
    dry_run: bool,
    is_lost: bool,
) -> None:
    saved = folder.read(path)
    target = await _side(near.client, "the target")
    index = saved.index
    chosen = [key for key in index.keys if namespace in (None, key.namespace)]
    if not chosen:
        raise Failure(
            f"--namespace: {path} has no clusters of {namespace or 'any namespace'}; it has {first(index.keys, 10)}"
        )
    chosen = [key for key in chosen if not names or key.name in names]
    if absent := [name for name in dict.fromkeys(names) if name not in {key.name for key in chosen}]:
        raise Failure(f"--cluster: not in {path}: {first(absent, 3)}; it has {first(index.keys, 10)}")
    restore = Restore(
        index.source,
        saved.items,
        target,
        judge,
        progress.say,
        index.infrastructure,
        folder.finished(path, chosen),
        lambda key: folder.finish(path, key, target.uid),
    )
    if not back and target.uid != index.source and await answers(index.server, index.authority):
        raise Failure(
            f"the management cluster of {path} lives: {index.server} answers with its certificate. Move the clusters "
            "with --to-kubeconfig; or stop that API server, if it has to be given up"
        )
    if not back and not dry_run:
        if not is_lost:
            if target.uid == index.source:
                raise Failure(
                    f"{path} was written here at {index.taken}; a cluster that is gone since then may have been moved "
                    "to another management cluster, and there would be two: each would replace machines of the other. "
                    "If none was, add --source-is-lost"
                )
            raise Failure(
                f"{path} was written at {index.taken}; if the management cluster of then still acts on these clusters, "
                "there would be two: each would replace machines of the other. If it is lost for good, add "
                "--source-is-lost"
            )
        await restore.check(chosen)
        folder.claim(path, chosen, target.uid)
    await _move(restore, chosen, back=back, dry_run=dry_run)
    if back:
        folder.unclaim(path, chosen, target.uid)


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except Refused as refused:
        raise Failure("\n".join(refused.problems)) from None
    except folder.Damaged as damaged:
        raise Damaged("\n".join(damaged.problems)) from None


def _show(moved: Mapping[Key, Sequence[str]]) -> None:
    for key, objects in moved.items():
        output.say(
            "\n".join(
                [f"cluster {key}: {counted(len(objects), 'object')} would be moved", *map("  {}".format, objects)]
            )
        )


async def _side(client: Client, what: str) -> Side:
    side = await Side.of(client)
    if side is None:
        raise Failure(
            f"{what} is no management cluster: it has no namespace eksa-system; apply `espalier manifests` there"
        )
    return side


async def _keys(near: Connected, names: Sequence[str]) -> list[Key]:
    keys = [Key(near.namespace, name) for name in dict.fromkeys(names)]
    return keys or await _managed(near.client, near.namespace)


async def _managed(client: Client, namespace: str | None) -> list[Key]:
    """The Clusters of a namespace, or of all, that do not manage themselves. Raises `Failure` if there are none."""
    clusters = (await client.list(Cluster.resource, namespace)).items
    keys = [
        cluster.key
        for cluster in clusters
        if ((cluster.tree.get("spec") or {}).get("managementCluster") or {}).get("name") not in (None, "", cluster.name)
    ]
    if not keys:
        if namespace is None:
            raise Failure("there are no clusters that could be copied: `espalier get clusters -A` lists all")
        raise Failure(f"namespace {namespace} has no clusters that could be moved; give another one with --namespace")
    return keys
