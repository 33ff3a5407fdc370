"""The images of what runs in a management cluster on real nodes, made when a node asks for one: Espalier's manager from
this installation, Cluster API's from their programs.

    python -m espalier.cli.local.images.management_archives PROGRAM IMAGE FOLDER
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import espalier
from espalier.assets.archive import Image, Layer, write_archive
from espalier.assets.cache import assets_folder, cache_folder, is_finished
from espalier.assets.processes import BuildFailed
from espalier.assets.recipes import CLUSTER_API
from espalier.cli.kit import distribution
from espalier.cli.kit.printing.output import say
from espalier.cli.local.images import program_images
from espalier.cli.local.images.architectures import own
from espalier.cli.local.images.registry_blobs import store_image
from espalier.realnodes.management.cluster_api import MANAGERS
from espalier.realnodes.management.deployments import PROGRAM, USER
from espalier.realnodes.nspawn.system.registry import DIGEST, ImageBuild

ENTRY = "espalier.cli.local.images.management_archives"
"""The module that runs `main`: stored by local environments, so its name stays."""
ESPALIER = program_images.MANAGER.name


def images() -> Mapping[str, str]:
    """The names of the images, by program: Espalier's manager and those of Cluster API."""
    managers = {manager.name: f"espalier.local/{manager.name}:v{CLUSTER_API.version}" for manager in MANAGERS}
    return {ESPALIER: f"espalier.local/{ESPALIER}:v{distribution.version()}", **managers}


def built_images() -> dict[str, ImageBuild]:
    """Builders of the images, by name. What they make is in the cache, for all local environments."""
    place = cache_folder() / "images"
    return {
        name: ImageBuild(folder, (sys.executable, "-m", ENTRY, program, name, str(folder)))
        for program, name in images().items()
        for folder in [place / f"{program}-{_content(program, name)}"]
    }


async def make_all() -> str:
    """Make those that are not there yet: a node waits for half a minute, and then longer each time. Returns why one
    can't be made; empty if all are there. May be cancelled.
    """
    for name, build in built_images().items():
        if (build.folder / DIGEST).is_file():
            continue
        process = await asyncio.create_subprocess_exec(
            *build.command, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
        )
        try:
            _, told = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            return f"image {name} can't be made: {told.decode(errors='replace').strip()}"
    return ""


def main(program: str, name: str, folder: str) -> int:
    """Make one; says what is in the way on standard error."""
    try:
        _make(program, name, Path(folder))
    except (BuildFailed, OSError) as error:
        say(str(error), stderr=True)
        return 1
    return 0


def _make(program: str, name: str, folder: Path) -> None:
    """Make one, unless another process has made it meanwhile: local environments share the cache."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / DIGEST).is_file():
            store_image(folder, partial(_write, program, name))


def _write(program: str, name: str, archive: Path) -> str:
    if program == ESPALIER:
        return program_images.write(program_images.MANAGER, name, [own().name], archive, lambda _text: None).digest
    return write_archive([_cluster_api(program, name)], archive)[name]


def _cluster_api(program: str, name: str) -> Image:
    """The image of one of Cluster API's managers: nothing but the program, which needs no library."""
    assets = CLUSTER_API.home(assets_folder())
    if not is_finished(assets):
        raise BuildFailed("Cluster API's programs are not built yet: run `make real-assets`")
    layer = Layer({PROGRAM.lstrip("/"): assets / program}, {"tmp": 0o1777})
    return Image((name,), (layer,), (PROGRAM,), user=f"{USER}:{USER}")


def _content(program: str, name: str) -> str:
    """A digest of what the image is made of: other programs make another image."""
    content = hashlib.sha256(name.encode())
    if program == ESPALIER:
        package = Path(espalier.__file__).parent
        for path in sorted(package.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                content.update(str(path.relative_to(package)).encode())
                content.update(path.read_bytes())
    else:
        content.update(CLUSTER_API.home(assets_folder()).name.encode())
    return content.hexdigest()[:12]


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
