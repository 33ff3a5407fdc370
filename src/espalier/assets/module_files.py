"""Manifests of other projects, taken out of their Go modules: nothing is compiled."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
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
class ModuleFiles(Component):
    """Files of modules, of one release."""

    release: str

    @property
    def version(self) -> str:
        """That of the release."""
        return self.release

    @property
    def go_version(self) -> tuple[int, ...]:
        """Any Go that downloads modules of today."""
        return (1, 21)


@dataclass(frozen=True)
class CrdFiles(ModuleFiles):
    """A folder for each name, with the CRDs as they are in the modules. Its release is that of EKS Anywhere that ships
    these versions, or the nearest ones that can be had."""

    modules: Sequence[CrdModule]

    @property
    def contents(self) -> Sequence[str]:
        """The names."""
        return tuple(dict.fromkeys(crd_module.name for crd_module in self.modules))

    @property
    def ingredients(self) -> Iterable[bytes]:
        """The modules, with their hashes."""
        yield repr([tuple(crd_module) for crd_module in self.modules]).encode()

    def make(self, work_folder: Path, assets: Path, progress: Progress) -> None:
        """Download each module, compare its hash, and copy its CRDs. Raises `BuildFailed`."""
        for crd_module in self.modules:
            progress.show(f"fetching {crd_module.module}")
            module = _downloaded(crd_module.module, crd_module.version, crd_module.sum, work_folder)
            source, target = module / crd_module.folder, work_folder / crd_module.name
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


@dataclass(frozen=True)
class RenderedChart(ModuleFiles):
    """The manifests of a release, as its project makes them: a namespace, and its chart, rendered by Helm."""

    module: str
    sum: str
    """The hash of the module's content, as go.sum has it."""
    namespace_file: str
    chart: str
    """The folder of the chart in the module; without a version, which a release writes into it."""
    flags: Sequence[str]
    """Those with which the project renders it."""
    helm: Component

    @property
    def file(self) -> str:
        """The file with the manifests."""
        return f"{self.name}.yaml"

    @property
    def contents(self) -> Sequence[str]:
        """The manifests."""
        return (self.file,)

    @property
    def ingredients(self) -> Iterable[bytes]:
        """The module, with its hash, and how the chart is rendered."""
        yield repr((self.module, self.release, self.sum, self.namespace_file, self.chart, self.flags)).encode()

    @property
    def needs(self) -> Sequence[Component]:
        """Helm."""
        return (self.helm,)

    def make(self, work_folder: Path, assets: Path, progress: Progress) -> None:
        """Download the module, compare its hash, and render the chart. Raises `BuildFailed`."""
        progress.show(f"fetching {self.module}")
        module = _downloaded(self.module, self.release, self.sum, work_folder)
        with tempfile.TemporaryDirectory(dir=work_folder) as folder:
            chart = Path(folder) / self.name
            # Contents only: the module cache is read-only, including its folders.
            for source in (path for path in (module / self.chart).rglob("*") if path.is_file()):
                copy = chart / source.relative_to(module / self.chart)
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(source.read_bytes())
            about = chart / "Chart.yaml"
            about.write_text(_VERSIONS.sub(rf"\1: v{self.release}", about.read_text()))
            rendered = self._rendered(chart, assets)
        namespace = (module / self.namespace_file).read_text()
        (work_folder / self.file).write_text(f"{namespace.rstrip()}\n{rendered}")

    def _rendered(self, chart: Path, assets: Path) -> str:
        command = [str(self.helm.home(assets) / "helm"), "template", *self.flags, self.name, str(chart)]
        environment = {**os.environ, "HOME": str(chart.parent)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode or not done.stdout.startswith("---"):
            raise BuildFailed(f"{self.label}: its chart can't be rendered: {done.stderr.strip() or done.stdout[:200]}")
        return done.stdout


_VERSIONS = re.compile(r"^(version|appVersion): .*$", re.MULTILINE)


def _downloaded(module: str, version: str, expected: str, folder: Path) -> Path:
    """The module in Go's cache. Raises `BuildFailed`, also for another content than the expected one."""
    named = f"{module}@v{version}"
    # The hash is ours to compare; Go's database of hashes lacks some modules, and a proxy need not serve it.
    environment = {**go_environment(), "GOFLAGS": "", "GONOSUMDB": module}
    command = ["go", "mod", "download", "-json", named]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    try:
        facts = json.loads(done.stdout)
    except ValueError:
        facts = {"Error": done.stderr.strip()}
    if "Error" in facts or done.returncode:
        raise BuildFailed(f"{named} can't be downloaded: {facts.get('Error') or done.stderr.strip()}")
    if facts["Sum"] != expected:
        raise BuildFailed(f"{named} has the hash {facts['Sum']}, expected is {expected}: nothing of it is used")
    return Path(facts["Dir"])
