"""`espalier image build`: container images that Espalier needs, made without Docker."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from espalier.api.versions import numbers_of
from espalier.assets import base, recipes
from espalier.assets.archive import Image, Layer, write_archive
from espalier.assets.processes import BuildFailed
from espalier.assets.runtime import Debian
from espalier.cli.kit import distribution, flags
from espalier.cli.kit.commands import Group
from espalier.cli.kit.failures import Failure, Usage
from espalier.cli.kit.output import say
from espalier.cli.kit.progress import Progress
from espalier.cli.local.images import manager_image
from espalier.cli.local.images.architectures import ARCHITECTURES
from espalier.upgrader import image as upgrader

KUBERNETES = ("kubeadm", "kubectl", "kubelet")
MIB = 2**20


@click.group(cls=Group)
def image() -> None:
    """Build container images, without Docker."""


@image.command()
@click.argument(
    "name", type=flags.OneOf(("manager", "upgrader")), metavar="NAME", help="Image to build: manager or upgrader."
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
    help="Platform of the manager: linux/amd64 or linux/arm64. Repeat the flag for several.",
    show_default="both",
)
@click.option("--output", "-o", required=True, type=flags.FILE, metavar="FILE", help="The archive to write.")
@click.option(
    "--tag",
    default="",
    metavar="NAME",
    help="Full name of the image.",
    show_default="espalier.local/NAME:VERSION",
)
def build(
    name: str,
    *,
    kubernetes_version: str,
    platforms: tuple[str, ...],
    output: Path,
    tag: str,
) -> None:
    """Build the image of the manager, or the one that upgrades nodes in place to a Kubernetes version.

    The manager image is what `espalier manifests --image` deploys: Python, the libraries of requirements-manager.txt
    and Espalier without its local environment. It runs as non-root. Debian's packages come from a mirror that apt or
    ESPALIER_DEBIAN_MIRROR names, libraries from pip; both are locked by hash. Neither root nor Docker is needed. A bill
    of materials (SPDX) and a statement of provenance (SLSA) for each platform are in the archive.

    The upgrader image contains Python with the modules in use, nsenter, the upgrader, and kubeadm, kubelet, kubectl,
    containerd and CNI plugins from `espalier assets build node-base-VERSION`.

    Neither contains a shell. `ctr images import` (OCI) and `docker load` accept the archive; the same input gives the
    same bytes.

    \b
    Examples:
      espalier image build manager -o manager.tar --tag example.com/espalier:1
      espalier image build upgrader --kubernetes-version v1.36.3 -o upgrader.tar
    """
    if name == "manager" and kubernetes_version:
        raise Usage(f"--kubernetes-version: found {kubernetes_version}, allowed only for the upgrader")
    if name == "upgrader" and platforms:
        raise Usage("--platform: allowed only for the manager; the upgrader is built for this machine's")
    if name == "upgrader" and not kubernetes_version:
        raise Usage("--kubernetes-version: found nothing, needed for the upgrader: the version that it upgrades to")
    if name == "manager":
        _build_manager(tag or f"espalier.local/manager:v{distribution.version()}", platforms, output)
    else:
        _build_upgrader(tag or f"espalier.local/upgrader:{kubernetes_version}", kubernetes_version, output)


def _build_upgrader(tag: str, kubernetes_version: str, output: Path) -> None:
    try:
        programs = base.find_base(numbers_of(kubernetes_version))
    except base.MissingAssets as missing:
        raise Failure(str(missing)) from None
    try:
        digest, sizes = write(programs, kubernetes_version, tag, output)
    except (BuildFailed, OSError) as error:
        raise Failure(f"the image could not be built: {error}") from None
    _say(output, tag, digest, sizes)


def _build_manager(tag: str, platforms: Sequence[str], output: Path) -> None:
    architectures = list(dict.fromkeys(name.removeprefix("linux/") for name in platforms)) or list(ARCHITECTURES)
    try:
        with Progress() as progress:
            built = manager_image.write(tag, architectures, output, progress.wait)
    except (BuildFailed, OSError) as error:
        raise Failure(f"the image could not be built: {error}") from None
    say(f"{output}: {tag}\n{built.digest}")
    for name, (digest, layers) in built.images.items():
        total = sum(layer.descriptor["size"] for layer in layers)
        say(f"linux/{name}: {total / MIB:.1f} MiB to pull ({digest})")
        for layer in layers:
            packed, plain = layer.descriptor["size"] / MIB, layer.size / MIB
            say(f"  {layer.content:<10} {packed:5.1f} MiB ({plain:.1f} MiB unpacked)")


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
    cached = {
        f"{Path(path).parent}/__pycache__/{Path(path).stem}.{debian.interpreter.tag}.pyc": path
        for path in upgrader.sources()
    }
    compiled = debian.interpreter.compile(
        {target: work_folder / path for target, path in cached.items()}, work_folder, names=cached
    )
    return {**files, **compiled}


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
