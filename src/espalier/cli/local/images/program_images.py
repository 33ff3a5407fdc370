"""Images that run Espalier itself, such as the manager's: the base, its locked libraries and Espalier."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import espalier
from espalier.assets.archive import Layer
from espalier.assets.interpreter import Interpreter
from espalier.cli.install.deployment import USER
from espalier.cli.kit import distribution
from espalier.cli.local.images import statements
from espalier.cli.local.images.architectures import ARCHITECTURES, own
from espalier.cli.local.images.bases import base
from espalier.cli.local.images.bases.shared_libraries import closure
from espalier.cli.local.images.layout import INDEX, Descriptor, Layout, PackedLayer
from espalier.cli.local.images.wheels import Library, download, unpack

START = "usr/local/bin/espalier"
LIBRARY = "usr/lib/espalier"
"""Directory of Espalier and its libraries in the image."""


@dataclass(frozen=True)
class Program:
    """An image of Espalier for some of its programs."""

    name: str
    tried: tuple[str, ...]
    """Modules that the image's Python imports before the image is written, to report missing ones at once."""

    @property
    def requirements(self) -> Path:
        """The locked requirements of these programs. In the package, for an installed Espalier has no other lock."""
        return Path(__file__).with_name(f"requirements-{self.name}.txt")


MANAGER = Program(
    "manager",
    (
        "espalier.cli.main",
        "espalier.cli.programs.manager",
        "espalier.cli.install.commands",
        "espalier.cli.clusters.plans.plan",
        "jsonpatch",
    ),
)
SEED = Program(
    "seed",
    (
        "espalier.cli.main",
        "espalier.cli.programs.gardenlet",
        "espalier.cli.programs.garden",
        "espalier.cli.backups.etcd_agent",
        "espalier.cli.backups.etcd_agent_run",
        "espalier.cli.backups.etcd_guard",
        "grpc",
        "obstore",
        "cronsim",
    ),
)
"""Of what runs in seeds: the gardenlet, and the agent and the guard beside an etcd."""
PROGRAMS = {program.name: program for program in (MANAGER, SEED)}


@dataclass(frozen=True)
class Built:
    """An archive that was written."""

    digest: str
    """Of the index, by which the image is deployed."""
    images: Mapping[str, tuple[str, Sequence[PackedLayer]]]
    """Digest and layers by architecture."""


def write(program: Program, tag: str, architectures: Sequence[str], output: Path, show: Callable[[str], None]) -> Built:
    """Write the archive of an image for some architectures, with a statement on what each consists of, and
    one on how it was built. `show` gets the progress. Raises `BuildFailed` and `OSError`."""
    with tempfile.TemporaryDirectory(prefix="espalier-image-") as made:
        work_folder = Path(made)
        mine = own()
        tools = base.unpacked(mine, work_folder / "base" / mine.name, show)
        interpreter = mine.interpreter(tools.root)
        layout = Layout(work_folder / "layout", interpreter.compress)
        images, described, about = {}, {}, []
        for name in architectures:
            folder = work_folder / name
            show(f"assemble the image for {name}")
            unpacked = tools if name == mine.name else base.unpacked(ARCHITECTURES[name], folder / "base", show)
            layers, libraries = _layers(program, unpacked, interpreter, folder, show)
            packed = [layout.layer(content, layer) for content, layer in layers.items()]
            settings = {"Entrypoint": [f"/{START}"], "User": f"{USER}:{USER}", "WorkingDir": "/"}
            described[name] = layout.image(name, packed, settings)
            images[name] = (str(described[name]["digest"]), packed)
            parts = statements.Parts(tag, name, packed[-1].diff_id, unpacked.packages, libraries)
            about += _statements(layout, described[name], parts)
        index = layout.document(INDEX, {"schemaVersion": 2, "mediaType": INDEX, "manifests": list(described.values())})
        show("write the archive")
        layout.archive(output, tag, index, described.get(mine.name) or next(iter(described.values())), about)
        return Built(str(index["digest"]), images)


def _statements(layout: Layout, image: Descriptor, parts: statements.Parts) -> list[Descriptor]:
    return [
        layout.statement(statements.SPDX, statements.bill(parts), image),
        layout.statement(statements.IN_TOTO, statements.provenance(parts, str(image["digest"])), image),
    ]


def _layers(
    program: Program, unpacked: base.Base, interpreter: Interpreter, folder: Path, show: Callable[[str], None]
) -> tuple[dict[str, Layer], list[Library]]:
    """The layers by their content, the one that changes most often last; and the libraries in them."""
    staged = folder / "image"
    show(f"download libraries for {unpacked.architecture.name}")
    wheels = download(interpreter, unpacked.architecture, program.requirements, folder / "wheels", show=show)
    libraries = [unpack(wheel, staged / LIBRARY) for wheel in wheels]
    theirs = sorted(path for path in (staged / LIBRARY).rglob("*") if path.is_file())
    runtime = unpacked.layer(interpreter, folder / "python")
    extensions = [path for path in theirs if ".so" in path.suffixes]
    closure(extensions, lambda name: _beside(name, extensions), there=[Path(path).name for path in runtime.files])
    ours = _program(interpreter, staged)
    if unpacked.architecture == own():
        interpreter.run(f"import {', '.join(program.tried)}", paths=[staged / LIBRARY])
    return {
        "Python": runtime,
        "libraries": Layer(_with_compiled(interpreter, staged, theirs, folder / "pyc")),
        "espalier": Layer(_with_compiled(interpreter, staged, ours, folder / "pyc")),
    }, libraries


def _beside(name: str, extensions: Sequence[Path]) -> Path | None:
    """A library that a wheel brings itself, for its own use."""
    return next((path for path in extensions if path.name == name), None)


def _program(interpreter: Interpreter, staged: Path) -> list[Path]:
    """The installed Espalier, and its start script; there is no shell that could read a script."""
    package, number = Path(espalier.__file__).parent, distribution.version()
    metadata = f"Metadata-Version: 2.1\nName: {distribution.NAME}\nVersion: {number}\n"
    start = (
        f"#!/{interpreter.python} -IS\nimport sys\n\nsys.path.insert(0, '/{LIBRARY}')\n\n"
        "from espalier.cli.main import main\n\nmain()\n"
    )
    made = [
        base.put(
            staged,
            f"{LIBRARY}/{distribution.NAME.replace('-', '_')}-{number}.dist-info/METADATA",
            metadata.encode(),
        ),
        base.put(staged, START, start.encode(), 0o755),
    ]
    for path in sorted(package.rglob("*")):
        parts = path.relative_to(package).parts
        module = ".".join(("espalier", *path.relative_to(package).with_suffix("").parts))
        if path.is_file() and not distribution.is_local(module) and "__pycache__" not in parts:
            made.append(base.put(staged, str(Path(LIBRARY, "espalier", *parts)), path.read_bytes()))
    return made


def _with_compiled(
    interpreter: Interpreter, staged: Path, files: Sequence[Path], work_folder: Path
) -> dict[str, Path | str]:
    """Files by their path in the image, with compiled modules: nothing could write these at run time."""
    contents: dict[str, Path | str] = {str(file.relative_to(staged)): file for file in files}
    sources = {path: file for path, file in contents.items() if path.endswith(".py") and isinstance(file, Path)}
    return {**contents, **interpreter.compile_beside(sources, work_folder)}
