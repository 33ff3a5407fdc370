"""`espalier list|download|import images` and `check-images`: sites without the internet."""

from __future__ import annotations

import functools
import os
import re
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import click
import msgspec

from espalier.api.text.listing import counted
from espalier.cli.clusters.manifests import documents, mirror_authority
from espalier.cli.kit import flags
from espalier.cli.kit.commands import Command, Group
from espalier.cli.kit.connecting.registry_credentials import CredentialsFailed, credentials_for
from espalier.cli.kit.failures import Failure, Usage
from espalier.cli.kit.printing import output
from espalier.cli.kit.printing.progress import Progress
from espalier.kube.connection.proxies import by_environment
from espalier.kube.connection.tls import trust
from espalier.releases import Releases

if TYPE_CHECKING:
    from espalier.api.eksa.parts.network import RegistryMirrorConfiguration
    from espalier.cli.clusters.airgap.copying import Copied
    from espalier.cli.clusters.airgap.registries import Account, HttpRegistry
    from espalier.cli.clusters.airgap.wanted import Mirror, WantedImage

Result = TypeVar("Result")

_NAME = r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*"
_REGISTRY = re.compile(
    rf"(?:[A-Za-z0-9]+(?:[.-]+[A-Za-z0-9]+)*|\[[0-9A-Fa-f:]+\])(?::(?P<port>[0-9]{{1,5}}))?(?:/{_NAME})*/?"
)


class Selection(msgspec.Struct, frozen=True):
    """The images that a command is about: of a release, or of the release of a cluster's manifest."""

    files: Sequence[str]
    release: str
    kubernetes: Sequence[str]
    folder: Path | None

    def images(self) -> tuple[list[WantedImage], RegistryMirrorConfiguration | None]:
        """The images, and the mirror of the manifest. Raises `Failure` for an unknown release or version."""
        from espalier.cli.clusters.airgap.wanted import of_release  # noqa: PLC0415

        version, minors, mirror = self._of_manifest()
        version, minors = self.release or version, self.kubernetes or minors
        offered = Releases.load(self.folder)
        try:
            release = offered.release(version) if version else offered.newest()
        except LookupError as error:
            raise Failure(f"{'--release' if self.release else 'spec.eksaVersion'}: {error}") from None
        try:
            return of_release(release, minors), mirror
        except LookupError as error:
            raise Failure(f"{'--kubernetes' if self.kubernetes else 'spec.kubernetesVersion'}: {error}") from None
        except ValueError as error:
            raise Failure(f"an image of release {release.version}: {error}") from None

    def _of_manifest(self) -> tuple[str, Sequence[str], RegistryMirrorConfiguration | None]:
        """Release, Kubernetes versions and mirror of the manifest."""
        if not self.files:
            return "", (), None
        document = documents.cluster_of(documents.examined(self.files).documents)
        spec = mirror_authority.completed(document, os.environ).tree.get("spec") or {}
        groups = [group.get("kubernetesVersion") for group in spec.get("workerNodeGroupConfigurations") or ()]
        minors = {str(minor) for minor in (spec.get("kubernetesVersion"), *groups) if minor}
        mirror = spec.get("registryMirrorConfiguration")
        if mirror:
            from espalier.api.eksa.parts.network import RegistryMirrorConfiguration  # noqa: PLC0415

            mirror = msgspec.convert(mirror, RegistryMirrorConfiguration)
        return str(spec.get("eksaVersion") or ""), sorted(minors), mirror or None


def _selection(command: Callable[..., Result]) -> Callable[..., Result]:
    """Flags that are given to the command as `selection`, a `Selection`."""

    @flags.filename(help="Manifest of a cluster: its release, Kubernetes versions and registry mirror.")
    @click.option("--release", default="", metavar="VERSION", help="eksaVersion. Default: the newest of this build.")
    @click.option("--kubernetes", multiple=True, metavar="VERSION", help="Only for these, like 1.35. Repeatable.")
    @flags.releases
    @functools.wraps(command)
    def selected(
        *, filename: Sequence[str], release: str, kubernetes: Sequence[str], releases: Path | None, **others: Any
    ) -> Result:
        return command(selection=Selection(filename, release, kubernetes, releases), **others)

    return selected


class Transport(msgspec.Struct, frozen=True):
    """How registries are reached."""

    ca_file: Path | None
    is_plain: bool

    @asynccontextmanager
    async def registries(
        self,
        mirror: Mirror | None,
        configured: RegistryMirrorConfiguration | None = None,
        *,
        tell: Callable[[str], None],
    ) -> AsyncIterator[Callable[[str], HttpRegistry]]:
        """Registries by host. `--ca-file` and http are for the mirror, or for all without one."""
        import aiohttp  # noqa: PLC0415  others need not load it

        from espalier.cli.clusters.airgap import registries  # noqa: PLC0415

        context = ssl.create_default_context()
        if self.ca_file is not None:
            try:
                context.load_verify_locations(cafile=self.ca_file)
            except OSError as error:
                reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
                advice = "which has no certificates as PEM"
                raise Usage(f"--ca-file: found {self.ca_file}, {advice} ({reason})") from None
        elif configured is not None and configured.ca_cert_content:
            with suppress(ssl.SSLError):
                trust(context, configured.ca_cert_content)
        known: dict[str, HttpRegistry] = {}
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=registries.SECONDS, sock_read=registries.SECONDS)
        connector = aiohttp.TCPConnector(ssl=context)
        ways = (by_environment,)
        async with aiohttp.ClientSession(timeout=timeout, connector=connector, middlewares=ways) as session:

            def registry_of(host: str) -> HttpRegistry:
                if host not in known:
                    plain = self.is_plain and (mirror is None or host == mirror.host)
                    is_mirror = mirror is not None and host == mirror.host
                    login = account(host, os.environ, is_mirror=is_mirror)
                    known[host] = registries.HttpRegistry(session, host, account=login, is_plain=plain, tell=tell)
                return known[host]

            yield registry_of


def _transport(command: Callable[..., Result]) -> Callable[..., Result]:
    """Flags that are given to the command as `transport`, a `Transport`."""

    @click.option("--insecure", is_flag=True, help="Speak http with the registry of --registry.")
    @click.option("--ca-file", type=flags.FILE, metavar="FILE", help="Authorities of the registry, as PEM.")
    @functools.wraps(command)
    def transported(*, insecure: bool, ca_file: Path | None, **others: Any) -> Result:
        return command(transport=Transport(ca_file, insecure), **others)

    return transported


@click.group("list", cls=Group)
def list_() -> None:
    """List what a release needs."""


@click.group(cls=Group)
def download() -> None:
    """Download what a release needs."""


@click.group("import", cls=Group)
def import_() -> None:
    """Import what a release needs into a registry."""


@list_.command("images")
@_selection
@flags.output(names=True)
def list_images(*, selection: Selection, output_format: str) -> None:
    """List all images that a release needs, one in each line.

    \b
    Examples:
      espalier list images
      espalier list images --release v0.26.0 --kubernetes 1.35 -o json
    """
    wanted, _ = selection.images()
    if not output_format:
        output.say("\n".join(str(image.reference) for image in wanted))
        return
    rows = [
        {"name": str(image.reference), "usedBy": list(image.used_by), "digests": sorted(image.digests)}
        for image in wanted
    ]
    output.write_facts({"images": rows}, output_format, rows="images", kind="image")


@download.command("images")
@_selection
@click.option(
    "--output",
    "-o",
    "folder",
    type=flags.FILE,
    required=True,
    metavar="FOLDER",
    help="Folder for them, an OCI image layout.",
)
@click.option("--registry", "-r", default=None, metavar="HOST", help="Download from this mirror of their registries.")
@_transport
async def download_images(*, selection: Selection, folder: Path, registry: str | None, transport: Transport) -> None:
    """Download the images of a release, of all platforms, into a folder.

    All content is verified by its digest. Interrupted, the same command goes on where it ended.

    \b
    Example:
      espalier download images --release v0.26.0 -o images
    """
    from espalier.cli.clusters.airgap import copying, layout  # noqa: PLC0415  with a library that help need not load

    wanted, _ = selection.images()
    mirror = _mirror_at(registry) if registry is not None else None
    with Progress() as progress:
        async with transport.registries(mirror, tell=progress.wait) as registry_of:
            with _files(folder):
                copied = await copying.download(wanted, layout.ImageLayout(folder), registry_of, mirror, progress.wait)
        _tell(progress, copied, f"in {folder}")


@import_.command("images")
@_selection
@click.option("--input", "-i", "folder", type=flags.FILE, required=True, metavar="FOLDER", help="Of `download images`.")
@click.option(
    "--registry", "-r", default=None, metavar="HOST[:PORT][/PATH]", help="Default: the mirror in the manifest."
)
@_transport
async def import_images(*, selection: Selection, folder: Path, registry: str | None, transport: Transport) -> None:
    """Import downloaded images into a registry, which nodes use as their mirror.

    What the registry has is not sent again; a tag is written when all of its image is there. Accounts are read from
    REGISTRY_USERNAME and REGISTRY_PASSWORD, else from Docker's configuration.

    \b
    Examples:
      espalier import images -i images -r harbor.example.com:443/mirror
      espalier import images -i images -r 127.0.0.1:5000 --insecure
    """
    from espalier.cli.clusters.airgap import copying, layout  # noqa: PLC0415
    from espalier.cli.clusters.airgap.registries import RegistryError  # noqa: PLC0415

    wanted, configured = selection.images()
    mirror = _mirror(registry, configured)
    with Progress() as progress:
        async with transport.registries(mirror, configured, tell=progress.wait) as registry_of:
            names = [str(image.reference) for image in wanted]
            try:
                target = registry_of(mirror.host)
            except RegistryError as error:
                raise Failure(str(error)) from None
            with _files(folder):
                copied = await copying.upload(layout.ImageLayout(folder), names, target, mirror, progress.wait)
        _tell(progress, copied, f"to {mirror.host}")


@click.command(cls=Command)
@_selection
@click.option(
    "--registry", "-r", default=None, metavar="HOST[:PORT][/PATH]", help="Default: the mirror in the manifest."
)
@click.option("--input", "-i", "folder", type=flags.FILE, metavar="FOLDER", help="Compare with these images.")
@_transport
async def check_images(
    *, selection: Selection, registry: str | None, folder: Path | None, transport: Transport
) -> None:
    """Check that a registry has all images that a release needs.

    \b
    Examples:
      espalier check-images -r harbor.example.com:443/mirror
      espalier check-images -r 127.0.0.1:5000 --insecure -i images
    """
    from espalier.cli.clusters.airgap import copying, layout  # noqa: PLC0415

    wanted, configured = selection.images()
    mirror = _mirror(registry, configured) if registry is not None or configured is not None else None
    images = layout.ImageLayout(folder) if folder is not None else None
    with Progress() as progress:
        async with transport.registries(mirror, configured, tell=progress.wait) as registry_of:
            copied = await copying.check(wanted, registry_of, mirror, images, progress.wait)
        where = f"in {mirror.host if mirror else 'their registries'}"
        _tell(progress, copied, where, verb="found", advice=CHECKED if mirror else CHECKED_AT_THE_SOURCE)


@contextmanager
def _files(folder: Path) -> Iterator[None]:
    """Raises `Failure` instead of an `OSError` about a file of the folder."""
    try:
        yield
    except OSError as error:
        place = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else folder
        advice = "what is there stays, and the same command goes on when this is solved"
        raise Failure(f"{place}: {error.strerror or error}; {advice}") from None


def _mirror_at(text: str) -> Mirror:
    from espalier.cli.clusters.airgap.wanted import Mirror  # noqa: PLC0415

    parts = _REGISTRY.fullmatch(text)
    if parts is None or not 0 < int(parts["port"] or 443) < 65536:
        raise Usage(f"--registry: found {text!r}, allowed is HOST[:PORT][/PATH], such as harbor.example.com:443/mirror")
    return Mirror.at(text)


def _mirror(text: str | None, configured: RegistryMirrorConfiguration | None) -> Mirror:
    from espalier.cli.clusters.airgap.wanted import Mirror  # noqa: PLC0415

    if text is not None:
        return _mirror_at(text)
    if configured is None:
        raise Usage("--registry: found none, and no manifest with registryMirrorConfiguration; give -r or -f")
    mirror = Mirror.of_cluster(configured)
    try:
        _ = urlsplit(f"//{mirror.host}").port
    except ValueError:
        field = "spec.registryMirrorConfiguration"
        raise Failure(f"{field}: found {mirror.host!r}, allowed is an endpoint with a port up to 65535") from None
    return mirror


def account(host: str, environment: Mapping[str, str], *, is_mirror: bool) -> Account | None:
    """The account for a registry: for a mirror REGISTRY_USERNAME and REGISTRY_PASSWORD, else that of Docker.

    None to ask without one, also where Docker has an identity token, which is not used here. Raises `RegistryError`.
    """
    from espalier.cli.clusters.airgap.registries import Account, RegistryError  # noqa: PLC0415

    name, password = environment.get("REGISTRY_USERNAME"), environment.get("REGISTRY_PASSWORD")
    if name and password and is_mirror:
        return Account(name, password)
    try:
        credentials = credentials_for(host, environment)
    except CredentialsFailed as failure:
        raise RegistryError(str(failure)) from None
    return Account(credentials.user, credentials.password) if credentials.user and credentials.password else None


_ATTEMPTS = re.compile(r" \([0-9]+ attempts?\)")


def _causes(failed: Mapping[str, str]) -> dict[str, list[str]]:
    """The images by the cause of their failure: its text, but for the image's own path and the number of attempts."""
    causes: dict[str, list[str]] = {}
    for name, reason in sorted(failed.items()):
        path = re.escape(_tagless(name).partition("/")[2])
        tag = re.escape(name.removeprefix(_tagless(name)))
        cause = re.sub(rf"/(?:[\w./-]*/)?{path}(?:{tag}(?!\w)|(?![\w./-]))", "", _ATTEMPTS.sub("", reason))
        causes.setdefault(cause, []).append(name)
    return causes


def _tagless(name: str) -> str:
    """The name of an image without tag and digest."""
    repository, colon, tag = name.partition("@")[0].rpartition(":")
    return repository if colon and "/" not in tag else name.partition("@")[0]


class Advice(msgspec.Struct, frozen=True):
    """The ends of the sentence about images that failed."""

    answered: str
    unanswered: str
    """If no registry gave an answer about any of them."""


ON = Advice("the same command goes on with them", "the same command goes on with them")
_AGAIN = "give the same command again once their registry answers"
CHECKED = Advice("`espalier import images` adds what is missing", _AGAIN)
CHECKED_AT_THE_SOURCE = Advice("-r or a manifest with registryMirrorConfiguration names a mirror to check", _AGAIN)


def _tell(progress: Progress, copied: Copied, where: str, *, verb: str = "copied", advice: Advice = ON) -> None:
    """Print the results. Raises `Failure` if some failed."""
    total = len(copied.failed) + len(copied.done) + len(copied.present)
    for cause, names in _causes(copied.failed).items():
        listed: list[str] = []
        if len(names) == 1:
            text = f"{names[0]}: {copied.failed[names[0]]}"
        elif len(names) == total:
            text = f"{cause}: all {counted(total, 'image')}"
        elif copied.unasked.issuperset(names):
            text = f"{cause}: {counted(len(names), 'image')}"
        else:
            text, listed = f"{cause}: {counted(len(names), 'image')}:", names
        progress.say(text, "[red]✗[/]")
        progress.show(*listed)
    there = f", {len(copied.present)} were there" if copied.present else ""
    size = f", {copied.bytes / 1024**2:.1f} MiB" if copied.bytes else ""
    if copied.done or copied.present:
        progress.say(f"{counted(len(copied.done), 'image')} {verb} {where}{size}{there}")
    if copied.failed:
        then = advice.unanswered if copied.unanswered.issuperset(copied.failed) else advice.answered
        raise Failure(f"{len(copied.failed)} of {counted(total, 'image')} failed; {then}")
