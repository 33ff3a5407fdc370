"""Architectures that images are built for."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path

from espalier.assets.interpreter import Interpreter
from espalier.assets.processes import BuildFailed

PYTHON = "3.13"
"""Of the base: which packages there are, which wheels fit, and where modules lie."""
GLIBC = 41
"""Minor version of the base's glibc 2: wheels for older ones fit too."""
OLDEST_GLIBC = 17


@dataclass(frozen=True)
class Architecture:
    """One architecture, by the name that it has in images and in Debian."""

    name: str
    machine: str
    """Its name in Linux, and in names of wheels."""
    loader: str
    """Path of the dynamic loader in a Debian file system, without leading slash."""
    links: tuple[tuple[str, str], ...]
    """Links by which programs find their loader: path, target."""

    @property
    def libraries(self) -> str:
        """Folder of the shared libraries."""
        return f"usr/lib/{self.machine}-linux-gnu"

    @property
    def wheel_platforms(self) -> list[str]:
        """Platform tags of wheels that run on the base, those for the newest glibc first."""
        minors = range(GLIBC, OLDEST_GLIBC - 1, -1)
        return [*(f"manylinux_2_{minor}_{self.machine}" for minor in minors), f"manylinux2014_{self.machine}"]

    def interpreter(self, root: Path) -> Interpreter:
        """The Python of a base that lies below `root`; it starts on a machine of this architecture alone."""
        return Interpreter(root, self.loader, self.libraries, f"usr/bin/python{PYTHON}", "the image's base")


ARCHITECTURES = {
    architecture.name: architecture
    for architecture in (
        Architecture("amd64", "x86_64", "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2", (("lib64", "usr/lib64"),)),
        Architecture("arm64", "aarch64", "usr/lib/aarch64-linux-gnu/ld-linux-aarch64.so.1", ()),
    )
}


def own() -> Architecture:
    """That of this machine, whose Python compiles the modules of images. Raises `BuildFailed` if there is none."""
    system, machine = platform.system(), platform.machine()
    for architecture in ARCHITECTURES.values():
        if (system, machine) == ("Linux", architecture.machine):
            return architecture
    allowed = " or ".join(architecture.machine for architecture in ARCHITECTURES.values())
    raise BuildFailed(f"images are built on Linux {allowed}; this is {system} {machine}: use a container or a machine")
