"""CustomResourceDefinitions of other projects, taken out of their Go modules: nothing is compiled."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from espalier.assets.component import Component
from espalier.assets.go import go_environment
from espalier.assets.processes import BuildFailed, Progress

_KIND = re.compile(r"^kind: CustomResourceDefinition\s*$", re.MULTILINE)


class CrdModule(NamedTuple):
    """A module of Go with CRDs in a folder. Which of these are taken, `files` says: a pattern of their names."""

    name: str
    """The folder in the result; several modules may share one."""
    module: str
    version: str
    sum: str
    """The hash of the module's content, as go.sum has it."""
    folder: str
    files: str = "*.yaml"


@dataclass(frozen=True)
class CrdFiles(Component):
    """A folder for each name, with the CRDs as they are in the modules."""

    modules: Sequence[CrdModule]
    release: str
    """The release of EKS Anywhere that ships these versions, or the nearest ones that can be had."""

    @property
    def version(self) -> str:
        """That release."""
        return self.release

    @property
    def contents(self) -> Sequence[str]:
        """The names."""
        return tuple(dict.fromkeys(crd_module.name for crd_module in self.modules))

    @property
    def ingredients(self) -> Iterable[bytes]:
        """The modules, with their hashes."""
        yield repr([tuple(crd_module) for crd_module in self.modules]).encode()

    @property
    def go_version(self) -> tuple[int, ...]:
        """Any Go that downloads modules of today."""
        return (1, 21)

    def make(self, work_folder: Path, assets: Path, progress: Progress) -> None:
        """Download each module, compare its hash, and copy its CRDs. Raises `BuildFailed`."""
        for crd_module in self.modules:
            progress.show(f"fetching {crd_module.module}")
            source, target = _downloaded(crd_module, work_folder) / crd_module.folder, work_folder / crd_module.name
            target.mkdir(exist_ok=True)
            texts = {path.name: path.read_text() for path in sorted(source.glob(crd_module.files))}
            crds = {name: text for name, text in texts.items() if _KIND.search(text)}
            if not crds:
                raise BuildFailed(
                    f"{self.label}: {crd_module.module} {crd_module.version} has no CRDs "
                    f"{crd_module.files} in {crd_module.folder}"
                )
            for name, text in crds.items():
                (target / name).write_text(text)


def _downloaded(crd_module: CrdModule, folder: Path) -> Path:
    """The module in Go's cache. Raises `BuildFailed`, also for another content than the expected one."""
    named = f"{crd_module.module}@v{crd_module.version}"
    # The hash is ours to compare; Go's database of hashes lacks some modules, and a proxy need not serve it.
    environment = {**go_environment(), "GOFLAGS": "", "GONOSUMDB": crd_module.module}
    command = ["go", "mod", "download", "-json", named]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    try:
        facts = json.loads(done.stdout)
    except ValueError:
        facts = {"Error": done.stderr.strip()}
    if "Error" in facts or done.returncode:
        raise BuildFailed(f"{named} can't be downloaded: {facts.get('Error') or done.stderr.strip()}")
    if facts["Sum"] != crd_module.sum:
        raise BuildFailed(f"{named} has the hash {facts['Sum']}, expected is {crd_module.sum}: nothing of it is used")
    return Path(facts["Dir"])
