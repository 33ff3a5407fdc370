"""`espalier create cluster` of a cluster that manages itself."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from espalier.api.core import NAMESPACE
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import BOOTSTRAP
from espalier.api.manifests.manifests import Document
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.api.text.listing import first
from espalier.api.text.printable import in_one_line
from espalier.api.text.violations import ManifestError, Problem, Violation
from espalier.cli.clusters import chosen_release, lifecycle
from espalier.cli.clusters.access import kubeconfig
from espalier.cli.clusters.manifests import documents, examination, preflight
from espalier.cli.clusters.moves.move_judge import ClusterJudge
from espalier.cli.clusters.reports import waiting
from espalier.cli.kit import flags, shown_commands
from espalier.cli.kit.connecting.home import Home
from espalier.cli.kit.failures import Failure, Overdue
from espalier.cli.kit.printing.progress import Progress
from espalier.cli.management import access, own_infrastructure, self_managed
from espalier.cli.management.bootstraps import (
    Bootstrap,
    LocalBootstrap,
    Nodes,
    client_of,
    has_simulated_machines,
)
from espalier.cli.management.components import components, git_ops
from espalier.cli.management.components.git_ops import GitOps
from espalier.cli.management.own_infrastructure import Given, ManagementCluster, check_flags
from espalier.cli.management.shown import print_steps, since_now
from espalier.clusters.design.provider import Providers
from espalier.kube.client import Client
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.errors import NotFound
from espalier.management import plan
from espalier.management import record as records
from espalier.management.creation import Creation
from espalier.management.steps import Elapsed, Refused, run

_SPACE = 200 * 2**20
"""Bytes that the bootstrap and a small management cluster may take on the disk of this machine."""
_DEFAULT = "default"


@dataclass(frozen=True)
class Asked:
    """A request to create a management cluster. Its manifest names the bootstrap as the management cluster."""

    key: Key
    prepared: Sequence[tuple[Resource, Tree]]
    documents: Sequence[Document]
    git_ops: GitOps | None = None

    @property
    def cluster(self) -> Tree:
        """The Cluster."""
        return self.prepared[-1][1]


async def create(
    documents_: Sequence[Document],
    problems: Sequence[Problem],
    flag: flags.Connection,
    *,
    timeout: float,
    dry_run: bool,
    nodes: Nodes,
    providers: Providers,
    bootstrap_kubeconfig: Path | None = None,
    flux_manifests: Path | None = None,
    given: Given | None = None,
) -> None:
    """Create it, or go on; by an existing bootstrap, if its kubeconfig is given, with the components that are `given`.

    Raises `ManifestError` and `Failure`, with all that is wrong.
    """
    elapsed = since_now()
    document = documents.cluster_of(documents_)
    bootstrap, wrong = await _bootstrap(document, flag, nodes, bootstrap_kubeconfig, dry_run=dry_run)
    if reasons := check_flags(bootstrap, given):
        raise Failure("\nerror: ".join(reasons))
    try:
        goes_on = await bootstrap.has_begun(Key(document.namespace or flag.namespace or _DEFAULT, document.name))
        asked = await _asked(documents_, problems, flag.namespace or _DEFAULT, flux_manifests, goes_on=goes_on)
    except ManifestError as error:
        if not wrong:
            raise
        raise Failure("\nerror: ".join([*(in_one_line(str(problem)) for problem in error.problems), *wrong])) from None
    if asked.git_ops is not None and bootstrap.has_real_nodes:
        wrong.append(
            "spec.gitOpsRef: Flux can't run on real nodes of this machine, which reach neither a repository nor its "
            "images: omit the field"
        )
    if isinstance(bootstrap, ManagementCluster) and given is not None:
        wrong += await bootstrap.prepare(asked.key, asked.cluster, providers, given)
        if asked.git_ops is not None and flux_manifests is None:
            wrong.append(
                "spec.gitOpsRef: on your own infrastructure, Flux's manifests are needed: give them with "
                "--flux-manifests, as `flux install --export` writes them"
            )
    if wrong:
        raise Failure("\nerror: ".join(wrong))
    if bootstrap_kubeconfig is not None:
        await _check_is_new(bootstrap, asked.key)
    path = lifecycle.kubeconfig_path(asked.key)
    with Progress() as progress:
        if dry_run and bootstrap.has_real_nodes and bootstrap.components is None:
            progress.say(
                f"cluster {asked.key} would be created on real nodes, and manage itself (dry run). Each step is known "
                "once its bootstrap runs"
            )
            return
        if dry_run:
            _print_steps(asked, bootstrap, path, progress)
            return
        try:
            async with asyncio.timeout(timeout):
                progress.wait("start the bootstrap")
                await bootstrap.start()
                client = await bootstrap.connect()
                try:
                    progress.say("start the bootstrap", aside=elapsed())
                    await _run(asked, client, bootstrap, path, providers, progress, elapsed)
                finally:
                    await client.close()
                progress.wait("remove the bootstrap")
                done = await bootstrap.remove(asked.key)
                progress.say("remove the bootstrap", aside=elapsed())
                for text in done:
                    progress.say(text)
        except Refused as refused:
            raise Failure("\n".join(refused.problems)) from None
        except TimeoutError:
            raise Overdue(
                f"cluster {asked.key} does not manage itself after {timeout:g} s; give the same command again to go on"
            ) from None
        _tell(asked.key, bootstrap, path, progress, elapsed())


async def _asked(
    documents_: Sequence[Document],
    problems: Sequence[Problem],
    namespace: str,
    flux_manifests: Path | None,
    *,
    goes_on: bool,
) -> Asked:
    """Raises `ManifestError` with everything that is wrong with the manifest by itself, `Failure` with what is wrong
    with the repository that it names."""
    document = documents.cluster_of(documents_)
    known = list(problems)
    tree = documents.readable(document)
    if document.name == BOOTSTRAP:
        message = f'"{BOOTSTRAP}" is the name of the bootstrap; choose another one'
        known.append(document.problem(Violation("metadata.name", BOOTSTRAP, "another name", message)))
    if tree is not None:
        known += chosen_release.problems(document, tree, chosen_release.own_version())
    reference = git_ops.reference_of(document)
    if isinstance(document.tree.get("spec"), dict):
        # Another than its own in any case: the rules for records that are written through the API don't apply.
        manager = BOOTSTRAP if document.name != BOOTSTRAP else f"{BOOTSTRAP}-1"
        document.tree["spec"]["managementCluster"] = {"name": manager}
    examined = examination.alone(documents_, known, None, namespace)
    if examined.problems:
        raise ManifestError(list(examined.problems))
    prepared = documents.in_namespace(documents_, namespace)
    cluster = prepared[-1][1]
    chosen_release.choose(cluster, None, chosen_release.own_version())
    release, name = cluster["spec"]["eksaVersion"], cluster["metadata"]["name"]
    simulated = components.simulated_flux(release, git_ops.namespace_of(reference, prepared))
    handed_over = await git_ops.asked(
        document, reference, prepared, flux_manifests, simulated=simulated, goes_on=goes_on
    )
    return Asked(Key(cluster["metadata"]["namespace"], name), prepared, documents_, handed_over)


async def _bootstrap(
    cluster: Document, flag: flags.Connection, nodes: Nodes, kubeconfig: Path | None, *, dry_run: bool
) -> tuple[Bootstrap, list[str]]:
    """The bootstrap, which is not started, and everything on this machine that is in the way."""
    key = Key(cluster.namespace or flag.namespace or _DEFAULT, cluster.name)
    path = lifecycle.kubeconfig_path(key)
    overwritten = (
        f"{path} already exists, and would be overwritten by the kubeconfig of cluster {key}: move it away, or give "
        "the command in another folder"
    )
    if kubeconfig is not None:
        given = own_infrastructure.bootstrap_of(kubeconfig, Home.locate())
        return given, [overwritten] if path.exists() and not await given.is_in_use(key) else []
    if importlib.util.find_spec("espalier.simulator") is None:
        raise ModuleNotFoundError("No module named 'espalier.simulator'", name="espalier.simulator")
    home = Home.locate().of_management_cluster(self_managed.folder_name(key.name))
    bootstrap = LocalBootstrap(home, nodes)
    if home.bootstrap.exists():
        if home.has_bootstrap():
            return bootstrap, _other_machines(key, nodes, home)
        if not dry_run:
            await bootstrap.resume()
        return bootstrap, [await _in_use(key, flag, home)]
    wrong = [overwritten] if path.exists() else []
    place = next(folder for folder in (home.root, *home.root.parents) if folder.exists())
    free = shutil.disk_usage(place).free
    if free < _SPACE:
        wrong.append(
            f"{place}: found {free >> 20} MiB of free space, a bootstrap needs {_SPACE >> 20} MiB: make room, or set "
            "ESPALIER_HOME to a folder on another disk"
        )
    return bootstrap, wrong


def _other_machines(key: Key, nodes: Nodes, home: Home) -> list[str]:
    """Reasons against going on with an interrupted creation: its machines are of another kind."""
    if not nodes.is_real or not has_simulated_machines(home):
        return []
    return [
        f"--nodes: found real, but the creation of cluster {key} was begun with simulated machines in {home.root}: "
        f"omit the flag to go on, or delete them first with `espalier delete cluster {key.name}`"
    ]


async def _check_is_new(bootstrap: Bootstrap, key: Key) -> None:
    """Raises `Failure` if an existing environment has a Cluster of this name that the creation would take over."""
    client = await bootstrap.connect()
    try:
        managed, begun = await records.managed(client), await records.read(client, key)
        existing = managed[0] if managed is not None and managed[0].name == key.name else None
        if existing is None and begun is None and not await _is_missing(client, key):
            existing = key
        if existing is not None:
            raise Failure(
                f"--bootstrap-kubeconfig: cluster {existing} already exists in that environment, and would be "
                "overwritten: choose another name for the management cluster"
            )
    finally:
        await client.close()


async def _in_use(key: Key, flag: flags.Connection, home: Home) -> str:
    """The refusal of a name that a management cluster of this machine has, whose namespace its kubeconfig tells."""
    known = await access.managed(key, flag)
    existing = known if known is not None and known.name == key.name else None
    if existing is not None and existing != key:
        return (
            f"cluster {existing} already exists, and manages itself: choose another name, for folder {home.root} is "
            "for one name, in whatever namespace"
        )
    return (
        f"cluster {existing or key.name} already exists, and manages itself: change it with `espalier upgrade cluster "
        f"-f FILE`, or delete it with `espalier delete cluster {key.name}`, with its kubeconfig"
    )


async def _run(
    asked: Asked,
    client: Client,
    bootstrap: Bootstrap,
    path: Path,
    providers: Providers,
    progress: Progress,
    elapsed: Elapsed,
) -> None:
    own = chosen_release.own_version()
    managed = await records.managed(client)
    if managed is None:
        raise Refused("the bootstrap is no management cluster: it has no ConfigMap eksa-system/management-cluster")
    asked.cluster["spec"]["managementCluster"] = {"name": managed[0].name}
    begun = await records.of_bootstrap(client, asked.key)
    manifest = records.manifest_of(tree for _, tree in asked.prepared)
    digest = bootstrap.digest if isinstance(bootstrap, ManagementCluster) else ""
    record = record_of(begun, asked.key, own, manifest, bootstrap.flag, digest)
    if record != begun:
        await records.write(client, record)
    creation = _creation(asked, client, bootstrap, path, providers, progress)
    try:
        await run(client, record, creation.steps(), creation.actions, progress, elapsed)
    finally:
        await creation.close()


def record_of(
    record: records.Record | None,
    key: Key,
    own: str,
    manifest: str,
    bootstrap_flag: str = "",
    components: str = "",
) -> records.Record:
    """The record of a creation that begins or goes on. Until the cluster is created, its manifest may change, and until
    Cluster API is installed there, its components.

    Raises `Refused` for a bootstrap of another release, operation, cluster, manifest or components.
    """
    if record is None:
        return records.Record(records.CREATE, key.namespace, key.name, own, manifest=manifest, components=components)
    namespace = "" if record.namespace == _DEFAULT else f" -n {record.namespace}"
    deletion = f"`espalier delete cluster {record.name}{namespace}{bootstrap_flag}`"
    if record.release != own:
        raise Refused(
            f"the bootstrap was started by the espalier of release {record.release}, and this one is of {own}: go on "
            f"with that one, or delete what it made with {deletion}"
        )
    if record.operation != records.CREATE:
        raise Refused(f"the bootstrap is in use, it {record.text}: go on with {deletion}, then create cluster {key}")
    if record.key != key:
        raise Refused(
            f"the bootstrap is in use, it {record.text}: go on with `espalier create cluster -f "
            f"FILE{bootstrap_flag}`, with the manifest of that cluster, or delete what it made with {deletion}"
        )
    if not record.step:
        return msgspec.structs.replace(record, manifest=manifest, components=components)
    if fields := records.changed(record, manifest):
        raise Refused(
            f"the creation of cluster {key} was begun with another manifest: {first(fields, 5, separator='; ')}; go on "
            "with the manifest that it was begun with, then give this one to `espalier upgrade cluster -f FILE`"
        )
    if record.step != "create" and record.components != components:
        raise Refused(
            f"--components: Cluster API is installed in cluster {key} already, from a folder with other content: go on "
            "with that one, then give this one to `espalier upgrade management-components`"
        )
    return msgspec.structs.replace(record, components=components)


def _creation(
    asked: Asked, client: Client, bootstrap: Bootstrap, path: Path, providers: Providers, progress: Progress
) -> Creation:
    release, handed_over = asked.cluster["spec"]["eksaVersion"], asked.git_ops
    real = bootstrap.components

    async def write(content: bytes) -> None:
        lifecycle.write_private(path, content)

    async def reach_machines(content: bytes) -> None:
        if bootstrap.has_real_nodes:
            progress.wait("the images for the nodes are being made")
        await bootstrap.reach_machines(asked.key, content)

    return Creation(
        asked.key,
        release,
        client,
        _Made(asked, client, providers, progress),
        lambda content: client_of(Kubeconfig.parse(content).context()),
        components.cluster_api(release, real),
        components.espalier(asked.key, release, real=real),
        ClusterJudge(providers, moves_records=True),
        write,
        progress,
        None if handed_over is None else lambda cluster: handed_over.set_up(cluster, progress),
        reach_machines,
    )


@dataclass(frozen=True)
class _Made:
    """Makes the cluster in the bootstrap, as a workload cluster is made."""

    asked: Asked
    client: Client
    providers: Providers
    progress: Progress

    async def apply(self) -> None:
        """See `creation.Made`."""
        asked, client = self.asked, self.client
        trees = [tree for _, tree in asked.prepared]
        await client.apply(NAMESPACE, {"metadata": {"name": asked.key.namespace}})
        await preflight.install_releases(client, asked.cluster["spec"]["eksaVersion"])
        if asked.git_ops is not None:
            await asked.git_ops.prepare(client, asked.key.namespace)
        is_new = await _is_missing(client, asked.key)
        if is_new:
            await preflight.judge(self.providers, client, asked.documents)
            await preflight.check_credentials(self.providers, client, trees, os.environ)

        async def bring_credentials() -> None:
            await preflight.bring_credentials(self.providers, client, trees, os.environ)

        applied = await documents.apply_all(client, asked.prepared, dry_run=False, first=bring_credentials)
        await waiting.until_ready(
            client,
            asked.key,
            generation=applied[-1].metadata.generation,
            timeout=float(24 * 3600),
            progress=self.progress,
        )

    async def kubeconfig(self) -> bytes:
        """See `creation.Made`."""
        return await kubeconfig.read(self.client, self.asked.key)


async def _is_missing(client: Client, key: Key) -> bool:
    try:
        await client.get(Cluster.resource, key.name, key.namespace)
    except NotFound:
        return True
    return False


def _print_steps(asked: Asked, bootstrap: Bootstrap, path: Path, progress: Progress) -> None:
    """Each step, with what it would write where."""
    release = asked.cluster["spec"]["eksaVersion"]
    real = bootstrap.components
    cluster_api = components.cluster_api(release, real)
    espalier = components.espalier(asked.key, release, real=real)
    steps = plan.creation(asked.key, cluster_api, espalier, has_git_ops=asked.git_ops is not None)
    print_steps(
        [
            plan.Planned(
                "",
                "start the bootstrap",
                [bootstrap.data],
            ),
            *(
                step._replace(writes=[_place_of(asked, path, step.name, text) for text in step.writes])
                for step in steps
            ),
            plan.Planned("", "remove the bootstrap", [f"{bootstrap.title}: its data for the creation are deleted"]),
        ]
    )
    progress.say(f"cluster {asked.key} would be created, and manage itself (dry run)")


def _place_of(asked: Asked, path: Path, step: str, text: str) -> str:
    """The writes of a step, with the place that only the command knows."""
    if step == "kubeconfig":
        return f"this machine: {path}"
    return asked.git_ops.title if asked.git_ops is not None and text.startswith("Git repository") else text


def _tell(key: Key, bootstrap: Bootstrap, path: Path, progress: Progress, elapsed: str) -> None:
    progress.say(f"cluster {key} manages itself", aside=elapsed)
    progress.say("its kubeconfig is written:")
    progress.show(f"kubectl --kubeconfig {shown_commands.path(path)} get clusters.anywhere.eks.amazonaws.com -A")
    left = bootstrap.left()
    if left:
        progress.say("left on this machine:", sign="-")
        progress.show(*left)
