"""`espalier image build`: container images that Espalier needs, made without Docker."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

import aiohttp
import click

from espalier.api.text.printable import quoted
from espalier.api.text.versions import numbers_of
from espalier.assets import base, recipes
from espalier.assets.archive import Image, Layer, write_archive
from espalier.assets.processes import BuildFailed
from espalier.assets.runtime import Debian
from espalier.cli.kit import distribution, flags
from espalier.cli.kit.commands import Group
from espalier.cli.kit.connecting.registry_credentials import CredentialsFailed, credentials_for
from espalier.cli.kit.failures import Failure, Usage
from espalier.cli.kit.printing.output import say
from espalier.cli.kit.printing.progress import Progress
from espalier.cli.local.images import program_images
from espalier.cli.local.images.architectures import ARCHITECTURES
from espalier.cli.local.images.push.archive import BadArchive, opened
from espalier.cli.local.images.push.pushing import push as registry_push
from espalier.cli.local.images.push.reference import Reference
from espalier.cli.local.images.push.registry import PushFailed, Registry, TagInDoubt
from espalier.releases.contents import reference
from espalier.upgrader import image as upgrader

Result = TypeVar("Result")
TIMES = aiohttp.ClientTimeout(total=None, sock_connect=30)
"""Seconds for a connection to a registry; what is sent may take long."""

KUBERNETES = ("kubeadm", "kubectl", "kubelet")
MIB = 2**20


@click.group(cls=Group)
def image() -> None:
    """Build container images, without Docker."""


def pushing(command: Callable[..., Result]) -> Callable[..., Result]:
    """The flags of a push."""
    command = click.option(
        "--statements/--no-statements",
        default=True,
        help="Push bills of materials and provenance too; some registries refuse them.",
        show_default=True,
    )(command)
    return click.option(
        "--plain-http", is_flag=True, help="The registry has no TLS. Credentials are then sent in clear text."
    )(command)


@image.command()
@click.argument(
    "name",
    type=flags.OneOf((*program_images.PROGRAMS, "upgrader")),
    metavar="NAME",
    help="Image to build: manager, seed or upgrader.",
)
@click.option(
    "--kubernetes-version",
    default="",
    metavar="VERSION",
    help="Kubernetes version of the upgrader, as in Clusters: v1.36.3, or v1.36.3-eks-1-36-1.",
)
@click.option(
    "--platform",
    "platforms",
    multiple=True,
    type=flags.OneOf(tuple(f"linux/{name}" for name in ARCHITECTURES)),
    metavar="PLATFORM",
    help="Platform of manager or seed: linux/amd64 or linux/arm64. Repeat the flag for several.",
    show_default="both",
)
@click.option("--output", "-o", type=flags.FILE, metavar="FILE", help="The archive to write; not needed with --push.")
@click.option(
    "--tag",
    default="",
    metavar="NAME",
    help="Full name of the image.",
    show_default="espalier.local/NAME:VERSION",
)
@click.option("--push", "is_pushed", is_flag=True, help="Push it to the registry in its name, as `image push` does.")
@pushing
def build(
    name: str,
    *,
    kubernetes_version: str,
    platforms: tuple[str, ...],
    output: Path | None,
    tag: str,
    is_pushed: bool,
    plain_http: bool,
    statements: bool,
) -> Awaitable[None] | None:
    """Build the image of the manager, of what runs in seeds, or the one that upgrades nodes in place to a Kubernetes
    version.

    The manager image is what `espalier manifests --image` deploys: Python, the libraries of requirements-manager.txt
    and Espalier without its local environment. It runs as non-root. Debian's packages come from a mirror that apt or
    ESPALIER_DEBIAN_MIRROR names, libraries from pip; both are locked by hash. Neither root nor Docker is needed. A bill
    of materials (SPDX) and a statement of provenance (SLSA) for each platform are in the archive. The seed image is the
    same with the libraries of requirements-seed.txt: for gardenlets, and for the agent and the guard of etcds.

    The upgrader image contains Python with the modules in use, nsenter, the upgrader, and kubeadm, kubelet, kubectl,
    containerd and CNI plugins from `espalier assets build node-base-VERSION`.

    None contains a shell. `ctr images import` (OCI) and `docker load` accept the archive; the same input gives the
    same bytes.

    \b
    Examples:
      espalier image build manager -o manager.tar --tag example.com/espalier:1
      espalier image build manager --push --tag registry.example.com/espalier:1
      espalier image build upgrader --kubernetes-version v1.36.3 -o upgrader.tar
    """
    if output is None and not is_pushed:
        raise Usage("--output: found nothing, needed unless the image is pushed (--push)")
    if name != "upgrader" and kubernetes_version:
        raise Usage(f"--kubernetes-version: found {kubernetes_version}, allowed only for the upgrader")
    if name == "upgrader" and platforms:
        raise Usage("--platform: allowed only for manager and seed; the upgrader is built for this machine's")
    if name == "upgrader" and not kubernetes_version:
        raise Usage("--kubernetes-version: found nothing, needed for the upgrader: the version that it upgrades to")
    # All before minutes of building.
    if is_pushed:
        _reference(tag, "--tag")
    elif plain_http or not statements:
        raise Usage(f"{'--plain-http' if plain_http else '--no-statements'}: found without --push; it is of a push")
    elif tag and not ((parts := reference(tag)) and parts["tag"] and not parts["digest"]):
        raise Usage(f"--tag: found {quoted(tag, 300)}, allowed is a name with a tag, such as example.com/espalier:v1")
    if output is not None:
        _check_output(output)
    # The build waits for programs, not for a loop: signals end it, as they end every command that is no coroutine.
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="espalier-image-"))
        archive = output or Path(folder, "image.tar")
        if program := program_images.PROGRAMS.get(name):
            _build_program(program, tag or f"espalier.local/{name}:v{distribution.version()}", platforms, archive)
        else:
            _build_upgrader(tag or f"espalier.local/upgrader:{kubernetes_version}", kubernetes_version, archive)
        if is_pushed:
            return _push_built(stack.pop_all(), archive, tag, plain_http=plain_http, statements=statements)
    return None


async def _push_built(folder: ExitStack, archive: Path, tag: str, *, plain_http: bool, statements: bool) -> None:
    with folder:
        await _push(archive, tag, plain_http=plain_http, statements=statements)


def _check_output(file: Path) -> None:
    """Raises `Usage` for a file that could not be written."""
    folder = file.parent
    if not folder.is_dir():
        raise Usage(f"--output: found {file}, but {folder} is no folder: create it, or name a file in another one")
    if file.is_dir():
        raise Usage(f"--output: found {file}, which is a folder; allowed is a file")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise Usage(f"--output: found {file}, but {folder} can't be written: get write permission there")


def _build_upgrader(tag: str, kubernetes_version: str, output: Path) -> None:
    try:
        programs = base.find_base(numbers_of(kubernetes_version))
    except base.MissingAssets as missing:
        raise Failure(str(missing)) from None
    try:
        digest, sizes = write(programs, kubernetes_version, tag, output)
    except (BuildFailed, OSError) as error:
        raise _unbuilt(error, output) from None
    _say(output, tag, digest, sizes)


def _unbuilt(error: BuildFailed | OSError, output: Path) -> Failure:
    reason = f"{error.filename or output}: {error.strerror or error}" if isinstance(error, OSError) else str(error)
    return Failure(f"the image could not be built: {reason}")


def _build_program(program: program_images.Program, tag: str, platforms: Sequence[str], output: Path) -> None:
    architectures = list(dict.fromkeys(name.removeprefix("linux/") for name in platforms)) or list(ARCHITECTURES)
    try:
        with Progress() as progress:
            built = program_images.write(program, tag, architectures, output, progress.wait)
    except (BuildFailed, OSError) as error:
        raise _unbuilt(error, output) from None
    say(f"{output}: {tag}\n{built.digest}")
    for name, (digest, layers) in built.images.items():
        total = sum(layer.descriptor["size"] for layer in layers)
        say(f"linux/{name}: {total / MIB:.1f} MiB to pull ({digest})")
        for layer in layers:
            packed, plain = layer.descriptor["size"] / MIB, layer.size / MIB
            say(f"  {layer.content:<10} {packed:5.1f} MiB ({plain:.1f} MiB unpacked)")


@image.command()
@click.argument("archive", type=flags.FILE, metavar="FILE", help="Archive that `image build` wrote.")
@click.argument("name", default="", metavar="[NAME]", help="Full name to push it as; default: the one in the archive.")
@pushing
async def push(archive: Path, name: str, *, plain_http: bool, statements: bool) -> None:
    """Push the image in an archive, for all its platforms, with the statements on it.

    Blobs that the repository has are not sent again. The tag is set last: a push that ends early leaves it as it was,
    and the same command goes on. Credentials are those of `docker login` (config.json in DOCKER_CONFIG or ~/.docker),
    and of the helpers named there. Prints the name with the digest, for `espalier manifests --image`.

    \b
    Examples:
      espalier image push manager.tar
      espalier image push manager.tar registry.example.com/espalier:v1
    """
    await _push(archive, name, plain_http=plain_http, statements=statements)


async def _push(archive: Path, name: str, *, plain_http: bool, statements: bool) -> None:
    try:
        with opened(archive) as images, Progress() as progress:
            contents = images.contents()
            target = _reference(name or contents.name, "NAME")
            credentials = credentials_for(target.registry)
            async with aiohttp.ClientSession(timeout=TIMES) as session:
                registry = Registry(target, credentials, session, plain_http)
                pushed = await registry_push(images, contents, registry, statements=statements, show=progress.wait)
    except TagInDoubt as error:
        raise Failure(f"the tag may have been set: {error}") from None
    except (BadArchive, CredentialsFailed, PushFailed) as error:
        raise Failure(f"nothing was tagged: {error}") from None
    except OSError as error:
        raise Failure(f"{archive} can't be read: {error.strerror}") from None
    say(f"{pushed.sent} blobs sent ({pushed.bytes / MIB:.1f} MiB), {pushed.there} were there", stderr=True)
    say(f"{target}@{pushed.digest}")


def _reference(text: str, parameter: str) -> Reference:
    """Raises `Usage`, which names the parameter."""
    try:
        return Reference.parse(text)
    except ValueError as error:
        raise Usage(f"{parameter}: {error}") from None


def _say(output: Path, tag: str, digest: str, sizes: Mapping[str, int]) -> None:
    parts = [f"{what} {size / MIB:.1f} MiB" for what, size in sizes.items()]
    say(f"{output}: {tag} ({digest})\n{', '.join(parts)}")


def write(programs: base.Base, kubernetes: str, tag: str, output: Path) -> tuple[str, dict[str, int]]:
    """Write the archive of the upgrader image for a version. Returns its digest, and the size of each layer.

    Raises `BuildFailed` and `OSError`.
    """
    with tempfile.TemporaryDirectory(prefix="espalier-image-") as work_folder:
        layers = _layers(programs, kubernetes, Path(work_folder))
        made = Image((tag,), tuple(layers.values()), (f"/{upgrader.PROGRAM}",))
        digests = write_archive([made], output, docker=True)
        return digests[tag], {what: layer.size for what, layer in layers.items()}


def _layers(programs: base.Base, kubernetes: str, work_folder: Path) -> dict[str, Layer]:
    """Layers by their content; the first two are the same for all Kubernetes versions."""
    sources = Path(upgrader.__file__).parents[2]
    debian = Debian(programs.root, sources)
    runtime = debian.runtime(upgrader.HOST_TOOLS, upgrader.MODULES, work_folder / "runtime")
    files = _components(programs)
    versions = {"containerd": recipes.CONTAINERD.version, "cni-plugins": recipes.CNI_PLUGINS.version}
    path, text = upgrader.describe(kubernetes, os.uname().machine, versions, files)
    return {
        "Python and nsenter": Layer(runtime),
        "the program": Layer(_program(debian, work_folder / "program")),
        "components": Layer({**upgrader.components(files), path: _written(work_folder / path, text, 0o644)}),
    }


def _program(debian: Debian, work_folder: Path) -> dict[str, Path | str]:
    """The program's modules compiled, beside their sources, and the file that starts them."""
    launcher = _written(work_folder / upgrader.PROGRAM, upgrader.launcher(debian.interpreter.python), 0o755)
    files: dict[str, Path | str] = {upgrader.PROGRAM: launcher}
    for path, source in upgrader.sources().items():
        files[path] = _written(work_folder / path, source.read_text() if source else "", 0o644)
    modules = {path: work_folder / path for path in upgrader.sources()}
    return {**files, **debian.interpreter.compile_beside(modules, work_folder)}


def _components(sources: base.Base) -> dict[str, Path]:
    programs = sources.system / "usr/local/bin"
    plugins = sources.system / "opt/cni/bin"
    return {
        **{f"kubernetes/{name}": programs / name for name in KUBERNETES},
        **{f"containerd/{name}": programs / name for name in recipes.CONTAINERD.programs},
        **{f"cni-plugins/{name}": plugins / name for name in recipes.CNI_PLUGINS.programs},
    }


def _written(place: Path, text: str, mode: int) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    place.chmod(mode)
    return place
