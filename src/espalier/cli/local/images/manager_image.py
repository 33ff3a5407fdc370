"""The image of the manager that `espalier manifests` deploys: Python, its locked libraries and Espalier."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import espalier
from espalier.assets.archive import Image, Layer, write_archive
from espalier.assets.base import find_root
from espalier.assets.debian import SUITE
from espalier.assets.runtime import PACKAGES, Debian
from espalier.assets.wheels import bill, download, unpack
from espalier.cli.install.deployment import USER
from espalier.cli.kit import distribution

PROGRAM = "usr/local/bin/espalier"
LIBRARY = "usr/lib/espalier"
"""Directory of Espalier and its libraries in the image."""
BILL = "usr/share/sbom/espalier.cdx.json"
REQUIREMENTS = Path(__file__).with_name("requirements-manager.txt")
"""The locked requirements of Espalier without its extras."""
TRIED = (
    "espalier.cli.main",
    "espalier.cli.programs.manager",
    "espalier.cli.install.commands",
    "espalier.cli.clusters.plan",
    "jsonpatch",
)
"""Imported by the image's Python before the image is written, to report missing modules at once."""


def write(tag: str, output: Path) -> tuple[str, Mapping[str, int], str]:
    """Write the archive of the manager's image. Returns its digest, the size of each layer, and its bill of materials.

    Raises `MissingAssets`, `BuildFailed` and `OSError`.
    """
    debian = Debian(find_root())
    with tempfile.TemporaryDirectory(prefix="espalier-image-") as made:
        work_folder = Path(made)
        staged = work_folder / "image"
        libraries = [
            unpack(wheel, staged / LIBRARY) for wheel in download(debian, REQUIREMENTS, work_folder / "wheels")
        ]
        theirs = sorted(path for path in (staged / LIBRARY).rglob("*") if path.is_file())
        ours = _program(debian, staged)
        debian.try_modules(TRIED, staged / LIBRARY)
        runtime = debian.python_runtime([path for path in theirs if ".so" in path.suffixes], work_folder / "runtime")
        packages = {
            Path(path).name: file.read_text()
            for path, file in runtime.items()
            if path.startswith(f"{PACKAGES}/") and isinstance(file, Path)
        }
        text = bill(distribution.NAME, distribution.version(), libraries, packages, f"debian-{SUITE}")
        layers = {
            "Python": Layer({**runtime, **_accounts(staged)}, {"tmp": 0o1777}),
            "libraries": Layer(_with_compiled(debian, staged, theirs, work_folder)),
            "espalier": Layer({**_with_compiled(debian, staged, ours, work_folder), BILL: _put(staged, BILL, text)}),
        }
        image = Image((tag,), tuple(layers.values()), (f"/{PROGRAM}",), f"{USER}:{USER}")
        digest = write_archive([image], output, docker=True)[tag]
        return digest, {what: layer.size for what, layer in layers.items()}, text


def _program(debian: Debian, staged: Path) -> list[Path]:
    """The installed Espalier, and its start script; there is no shell that could read a script."""
    package, number = Path(espalier.__file__).parent, distribution.version()
    metadata = f"Metadata-Version: 2.1\nName: {distribution.NAME}\nVersion: {number}\n"
    made = [
        _put(staged, f"{LIBRARY}/{distribution.NAME.replace('-', '_')}-{number}.dist-info/METADATA", metadata),
        _put(
            staged,
            PROGRAM,
            f"#!/{debian.python} -IS\nimport sys\n\nsys.path.insert(0, '/{LIBRARY}')\n\n"
            "from espalier.cli.main import main\n\nmain()\n",
            0o755,
        ),
    ]
    for path in sorted(package.rglob("*")):
        parts = path.relative_to(package).parts
        module = ".".join(("espalier", *path.relative_to(package).with_suffix("").parts))
        if path.is_file() and not distribution.is_local(module) and "__pycache__" not in parts:
            place = staged / LIBRARY / "espalier" / Path(*parts)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(path.read_bytes())
            place.chmod(0o644)
            made.append(place)
    return made


def _accounts(staged: Path) -> Mapping[str, Path]:
    """Files that programs look up: a user name, and host names from files first, then from DNS."""
    texts = {
        "etc/passwd": f"root:x:0:0:root:/:/sbin/nologin\nespalier:x:{USER}:{USER}:espalier:/:/sbin/nologin\n",
        "etc/group": f"root:x:0:\nespalier:x:{USER}:\n",
        "etc/nsswitch.conf": "hosts: files dns\n",
    }
    return {path: _put(staged, path, text) for path, text in texts.items()}


def _with_compiled(debian: Debian, staged: Path, files: list[Path], work_folder: Path) -> dict[str, Path | str]:
    """Files by their path in the image, with compiled modules: nothing could write these at run time."""
    contents: dict[str, Path | str] = {str(file.relative_to(staged)): file for file in files}
    sources = {path: file for path, file in contents.items() if path.endswith(".py") and isinstance(file, Path)}
    names = {f"{Path(path).parent}/__pycache__/{Path(path).stem}.{debian.tag}.pyc": path for path in sources}
    compiled = debian.compile(
        {target: sources[path] for target, path in names.items()}, work_folder / "pyc", names=names
    )
    return {**contents, **compiled}


def _put(staged: Path, path: str, text: str, mode: int = 0o644) -> Path:
    place = staged / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    place.chmod(mode)
    return place
