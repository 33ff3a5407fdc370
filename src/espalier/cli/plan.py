"""`espalier plan`: what a manifest, another release or another manager would change, before anybody does it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from espalier.api.eksa.cluster import Cluster
from espalier.api.manifests import Document
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.cli import connection, documents, flags, output, plan_text
from espalier.cli.failures import Exit, Usage, explain
from espalier.cli.plan_text import Planned
from espalier.clusters.gate import Isolation
from espalier.clusters.observe import Observer
from espalier.clusters.preview import reading
from espalier.clusters.preview.previews import Previews
from espalier.clusters.scope import is_self_managed, read
from espalier.kube.client import Client
from espalier.kube.objects import Object
from espalier.releases import Releases
from espalier.runtime.snapshot import Snapshot

NOTHING, CHANGES, REFUSED = 0, 1, 2
"""Exit codes, as of `kubectl diff`."""

Output = Annotated[str, Parameter(name=["--output", "-o"], help="json or yaml.", show_default=False)]


def register(app: App) -> None:
    """Add the command to the program."""
    app.command(plan)


async def plan(
    *,
    filename: Annotated[
        list[str],
        Parameter(
            name=["--filename", "-f"],
            help="Manifest of one or several clusters; `-` for standard input. Repeatable.",
            negative="",
            allow_leading_hyphen=True,
        ),
    ] = [],  # noqa: B006  only read
    eksa_version: Annotated[
        str, Parameter(help="As if this release were asked for; without -f, of all clusters.", show_default=False)
    ] = "",
    manager: Annotated[
        bool, Parameter(help="What a manager of this build would do with the clusters as they are.", negative="")
    ] = False,
    isolation: Annotated[Isolation, Parameter(help="The setting of the manager that is asked about.")] = Isolation.GATE,
    all_namespaces: Annotated[
        bool, Parameter(name=["--all-namespaces", "-A"], help="The clusters of all namespaces.", negative="")
    ] = False,
    connect: flags.Connection = flags.Connection(),  # noqa: B008  frozen
    releases: flags.Releases = None,
    output_format: Output = "",
) -> int:
    """Show what would change: objects field by field, machines and why, how long, and what would be refused.

    Only reads. Exit codes: 0 nothing would change, 1 something would, 2 and above an error or a refusal.

    Example: `espalier plan -f examples/docker.yaml`
    """
    try:
        if output_format not in ("", "json", "yaml"):
            raise Usage(f"-o: found {output_format!r}, allowed are json and yaml")
        if not filename and not eksa_version and not manager:
            raise Usage("name a manifest (-f FILE), a release (--eksa-version V), or ask for --manager")
        if manager and (filename or eksa_version):
            raise Usage("--manager asks about the clusters as they are: leave out -f and --eksa-version")
        found = documents.read(filename, several=True) if filename else []
        asked = _Asked(found, eksa_version, isolation, releases)
        async with connection.connect(connect) as connected:
            namespace = None if all_namespaces else connected.namespace
            if manager:
                planned = await asked.of_manager(connected.client, namespace)
            elif filename:
                planned = await asked.of_manifest(connected.client, connected.namespace)
            else:
                planned = await asked.of_release(connected.client, namespace)
    except Exception as error:
        explained = explain(error)
        if explained is None:
            raise
        code, text = explained
        print(f"error: {text}" if not text.startswith("Error") else text, file=sys.stderr)
        return REFUSED if code is Exit.REFUSED else code
    if output_format:
        output.write_facts(plan_text.facts(planned), output_format)
    else:
        plan_text.write(planned)
    return _code(planned)


class _Asked:
    """What the command line asks about."""

    def __init__(
        self, found: Sequence[Document], eksa_version: str, isolation: Isolation, releases: Path | None
    ) -> None:
        self._found = found
        self._version = eksa_version
        self._isolation = isolation
        self._releases = Releases.load(releases)

    async def of_manifest(self, client: Client, namespace: str) -> list[Planned]:
        """Each Cluster of the manifest, with the objects that it links; the later ones find the earlier ones there."""
        trees = [tree for _, tree in documents.in_namespace(self._found, namespace)]
        others = [tree for tree in trees if tree["kind"] != Cluster.resource.kind]
        clusters = [tree for tree in trees if tree["kind"] == Cluster.resource.kind]
        for tree in clusters:
            self._choose_release(tree["spec"])
        versions = [version for tree in clusters if (version := tree["spec"].get("eksaVersion"))]
        previews = await self._read(client, [_key(tree) for tree in clusters], versions)
        planned = []
        for tree in clusters:
            linked = [other for other in others if _links(tree, other)]
            planned.append(Planned(previews.of_change(_key(tree), [*linked, tree])))
        return planned

    async def of_release(self, client: Client, namespace: str | None) -> list[Planned]:
        """All clusters, as if another release were asked for."""
        previews, clusters = await self._read_all(client, namespace, [self._version])
        planned = []
        for cluster in clusters:
            tree = cluster.tree
            metadata = {"name": cluster.name, "namespace": cluster.namespace}
            manifest = {**tree, "metadata": metadata, "spec": self._choose_release(tree["spec"])}
            planned.append(Planned(previews.of_change(cluster.key, [manifest])))
        return planned

    async def of_manager(self, client: Client, namespace: str | None) -> list[Planned]:
        """All clusters, as a manager of this build finds them."""
        previews, clusters = await self._read_all(client, namespace, [])
        return [Planned(previews.as_it_is(cluster.key), previews.at_next_change(cluster.key)) for cluster in clusters]

    def _choose_release(self, spec: Tree) -> Tree:
        if self._version:
            spec["eksaVersion"] = self._version
            spec["bundlesRef"] = None
        return spec

    async def _read(self, client: Client, keys: Sequence[Key] | None, versions: Sequence[str]) -> Previews:
        return (await self._snapshot(client, keys, versions, None))[0]

    async def _read_all(
        self, client: Client, namespace: str | None, versions: Sequence[str]
    ) -> tuple[Previews, list[Object]]:
        previews, found = await self._snapshot(client, None, versions, namespace)
        clusters = [one for one in found if one.kind == Cluster.resource.kind and one.head.api_version == _API_VERSION]
        of_namespace = [one for one in clusters if namespace in (None, one.namespace)]
        return previews, sorted(
            (one for one in of_namespace if not is_self_managed(read(one))), key=lambda one: one.key
        )

    async def _snapshot(
        self, client: Client, keys: Sequence[Key] | None, versions: Sequence[str], namespace: str | None
    ) -> tuple[Previews, list[Object]]:
        world = await reading.read(client, keys, versions=versions, namespace=namespace)
        snapshot = Snapshot()
        observer = Observer(snapshot, self._releases, isolation=self._isolation)
        snapshot.fill(world.objects)
        return Previews(snapshot, observer, world.fleets, now=datetime.now(UTC)), world.objects


_API_VERSION = Cluster.resource.api_version


def _key(tree: Tree) -> Key:
    return Key(tree["metadata"]["namespace"], tree["metadata"]["name"])


def _links(cluster: Tree, other: Tree) -> bool:
    """Whether an object of the manifest belongs to a Cluster of it."""
    reference = cluster["spec"].get("datacenterRef") or {}
    same = other["metadata"].get("namespace") == cluster["metadata"]["namespace"]
    return same and (other["kind"], other["metadata"]["name"]) == (reference.get("kind"), reference.get("name"))


def _code(planned: Sequence[Planned]) -> int:
    previews = [preview for one in planned for preview in one if preview is not None]
    if any(preview.refusals for preview in previews):
        return REFUSED
    return NOTHING if all(preview.is_empty for preview in previews) else CHANGES
