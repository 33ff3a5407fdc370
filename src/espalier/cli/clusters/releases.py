"""`espalier releases list|show|import`: the releases of this build, of a folder, and of a management cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec
from msgspec.structs import replace

from espalier.api.eksa.releases.distro import DistroRelease
from espalier.api.eksa.releases.release import Bundles, EKSARelease
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.kinds import KubeObject
from espalier.cli.kit import flags
from espalier.cli.kit.commands import Group
from espalier.cli.kit.connecting import connection
from espalier.cli.kit.failures import Failure, NotReachable
from espalier.cli.kit.printing import output
from espalier.cli.kit.printing.layout import Table
from espalier.kube.client import Client
from espalier.kube.errors import NotFound, Unreachable
from espalier.kube.objects import Object, readable
from espalier.releases import Release, Releases, install, kubernetes_versions, release_name
from espalier.runtime.caches.transforms import strip_managed_fields

K = TypeVar("K", bound=KubeObject)

UNKNOWN = "not announced"

RELEASES = Table(("Version", "Released", "Kubernetes", "Bundles", "In Build", "Installed"), lists=(2,))
FACTS = Table(("Release", ""))
VERSIONS = Table(("Kubernetes", "Full Version", "EKS Distro", "Support Ends"))


@click.group(cls=Group)
def releases() -> None:
    """Show releases, and import them into a management cluster."""


@releases.command("list")
@flags.connection
@flags.releases
@flags.output(names=True)
async def list_(*, connect: flags.Connection, releases: Path | None, output_format: str) -> None:
    """List releases: those of this build (or a folder), and those installed on the management cluster.

    With -o json or yaml, a List: `items` have `metadata.name`, `version`, `kubernetesVersions`, `offered`, `installed`.

    \b
    Examples:
      espalier releases list
      espalier releases list -o jsonpath='{.items[*].metadata.name}'
    """
    offered = Releases.load(releases)
    installed = await _installed(connect)
    rows = _rows(offered, installed)
    if output_format:
        kind = f"{EKSARelease.resource.kind}.{EKSARelease.resource.group}".lower()
        output.write_facts({**_listed(rows), "releases": rows}, output_format, rows="items", kind=kind)
    else:
        source = "In Folder" if releases else "In Build"
        output.write_table(
            RELEASES.named("Version", "Released", "Kubernetes", "Bundles", source, "Installed"),
            [
                (
                    row["version"],
                    row["date"][:10],
                    ", ".join(row["kubernetesVersions"]),
                    row["bundles"],
                    _yes(row["offered"]),
                    _yes(row["installed"]),
                )
                for row in rows
            ],
        )


@releases.command()
@click.argument("version", help="The eksaVersion, like v0.26.0.")
@flags.connection
@flags.releases
@flags.output(names=True)
async def show(version: str, *, connect: flags.Connection, releases: Path | None, output_format: str) -> None:
    """Show a release: its Kubernetes versions, and when support of each ends. With -o, its objects.

    Releases that this build does not include are read from the management cluster.

    \b
    Example:
      espalier releases show v0.25.1
    """
    release = await _find(version, Releases.load(releases), connect)
    if output_format:
        objects = [
            msgspec.to_builtins(object_) for object_ in (*release.distros, release.bundles, release.eksa_release)
        ]
        output.write_objects(objects, output_format, single=False)
        return
    spec = release.eksa_release.spec
    facts = (("version", spec.version), ("released", spec.date), ("commit", spec.git_commit), ("name", release.name))
    output.write_table(FACTS, [*facts, ("bundles", release.bundles.metadata.name)])
    output.say()
    output.write_table(
        VERSIONS,
        [
            (entry.kube_version, entry.eks_d.kube_version, entry.eks_d.name, entry.end_of_standard_support or UNKNOWN)
            for entry in release.bundles.spec.versions_bundles
        ],
    )


@releases.command("import")
@click.argument("folder", type=flags.FILE, help="Folder with releases.yaml and the files it names.")
@flags.connection
async def import_(folder: Path, *, connect: flags.Connection) -> None:
    """Create the releases of a folder on the management cluster: EKSAReleases, Bundles, and EKS Distro Releases.

    releases.yaml names the Bundles, and these name the EKS Distro Releases: by embed:///PATH for a file of the folder,
    or by https://HOST/PATH for its copy HOST/PATH there. Nothing is downloaded.

    Never overwrites existing objects: releases are immutable, because clusters are rendered from them.

    \b
    Example:
      espalier releases import ./mirror
    """
    offered = Releases.load(folder)
    objects = offered.objects()
    async with connection.connect(connect) as connected:
        made = {(installed.kind, installed.name) for installed in await install(connected.client, objects)}
        created = [object_ for object_ in objects if (object_.kind, object_.metadata.name) in made]
        there = [object_ for object_ in objects if object_ not in created]
        different = [object_ for object_ in there if not await _is_equal(connected.client, object_)]
    for object_ in objects:
        output.say(f"{_name(object_)} {_result(object_, created, different)}")
    if different:
        names = ", ".join(map(_name, different))
        advice = "give the release another version, and the objects it names other names"
        raise Failure(f"{names}: exists with other content, and is immutable; {advice}")


def _result(object_: KubeObject, created: Sequence[KubeObject], different: Sequence[KubeObject]) -> str:
    if object_ in different:
        return "differs, left as it is"
    return "created" if object_ in created else "is there"


async def _is_equal(client: Client, object_: KubeObject) -> bool:
    """True if an object has the content of that which is there; in what is absent, a default is nothing else."""
    meta = object_.metadata
    stored = await client.get(object_.resource, meta.name, meta.namespace or None)
    return replace(stored.decode(type(object_)), metadata=meta) == object_


async def _installed(connect: flags.Connection) -> list[tuple[EKSARelease, Bundles | None]] | None:
    """The releases of the management cluster; None if there is none to ask."""
    try:
        async with connection.connect(connect) as connected:
            releases = await connected.client.list(EKSARelease.resource)
            bundles = await connected.client.list(Bundles.resource, SYSTEM_NAMESPACE)
    except (NotReachable, Unreachable) as error:
        output.say_wrapped(f"Not known which are installed: {error}", stderr=True)
        return None
    by_name = {item.metadata.name: item for item in readable(bundles.items, Bundles)}
    return [(release, by_name.get(release.spec.bundles_ref.name)) for release in readable(releases.items, EKSARelease)]


def _listed(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The rows as a List of EKSAReleases; `releases` beside it has the same rows without `metadata`."""
    resource = EKSARelease.resource
    items = [
        {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": row["name"]}, **row}
        for row in rows
    ]
    return {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items}


def _rows(offered: Releases, installed: list[tuple[EKSARelease, Bundles | None]] | None) -> list[dict[str, Any]]:
    by_version: dict[str, tuple[EKSARelease, Bundles | None]] = {
        version: (offered.release(version).eksa_release, offered.release(version).bundles)
        for version in offered.versions
    }
    there = {release.spec.version: (release, bundles) for release, bundles in installed or []}
    others = sorted(there.keys() - by_version.keys(), reverse=True)
    return [
        {
            "version": version,
            "name": release.metadata.name,
            "date": release.spec.date,
            "kubernetesVersions": list(kubernetes_versions(bundles)) if bundles else [],
            "bundles": release.spec.bundles_ref.name,
            "offered": version in by_version,
            "installed": None if installed is None else version in there,
        }
        for version, (release, bundles) in [*by_version.items(), *((other, there[other]) for other in others)]
    ]


async def _find(version: str, offered: Releases, connect: flags.Connection) -> Release:
    if version in offered.versions:
        return offered.release(version)
    try:
        name = release_name(version)
    except ValueError as error:
        raise Failure(str(error)) from None
    async with connection.connect(connect) as connected:
        try:
            release = _shown(await connected.client.get(EKSARelease.resource, name), EKSARelease)
        except NotFound as error:
            if error.is_of_kind:
                raise
            known = ", ".join(offered.versions)
            raise Failure(f"there is no release {version}, neither installed nor in {known}") from None
        reference = release.spec.bundles_ref
        try:
            stored = await connected.client.get(Bundles.resource, reference.name, reference.namespace)
        except NotFound:
            raise Failure(
                f"release {version} names Bundles {reference.namespace}/{reference.name}, which do not exist; apply "
                "them, or import the release with them (`espalier releases import`)"
            ) from None
        bundles = _shown(stored, Bundles)
        return Release(release, bundles, await _distros(connected.client, bundles))


async def _distros(client: Client, bundles: Bundles) -> tuple[DistroRelease, ...]:
    """The existing EKS Distro Releases that Bundles name."""
    listed = await client.list(DistroRelease.resource, SYSTEM_NAMESPACE)
    names = {entry.eks_d.name for entry in bundles.spec.versions_bundles}
    return tuple(_shown(item, DistroRelease) for item in listed.items if item.name in names)


def _shown(object_: Object, kind: type[K]) -> K:
    """An object without fields that only its server uses."""
    return strip_managed_fields(object_).decode(kind)


def _name(object_: KubeObject) -> str:
    return output.name_of(msgspec.to_builtins(object_))


def _yes(value: bool | None) -> str:
    return "unknown" if value is None else "yes" if value else "no"
