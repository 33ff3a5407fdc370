"""Programs from a Go module whose go.mod pins everything: one binary with several names, or one for each."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from espalier.assets.component import Component, numbers, platform
from espalier.assets.processes import BuildFailed, Progress, follow

BUILD_ENVIRONMENT = {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly", "GOWORK": "off"}
"""Settings that make builds reproducible. The machine's own Go settings determine where modules come from."""
BUILD_FLAGS = ("-trimpath", "-buildvcs=false")


@dataclass(frozen=True)
class GoModule(Component):
    """A folder with go.mod and go.sum, and a program unless `packages` names programs of the required modules."""

    folder: Path
    module: str
    """The required module whose version is the component's version; empty for a program of our own."""
    programs: Mapping[str, tuple[str, ...]]
    """Program -> arguments with which it prints its version (none: it can't)."""
    packages: Mapping[str, str] = field(default_factory=dict)
    """Program -> Go package; without it, all programs are one binary of the folder's own program."""
    modfile: str = "go.mod"
    """The file that pins a version, where several are built; its sums are next to it. go.mod is then a stub."""
    folders: tuple[str, ...] = ()
    """Folders of `module` that are copied next to the programs, under the same path."""
    stamps: Mapping[str, str] = field(default_factory=dict)
    """Variables to be set by the linker; `{version}`, `{major}` and `{minor}` are filled in."""

    @cached_property
    def version(self) -> str:
        """The version that go.mod pins, without the leading v; of our own programs, the Go version they are for."""
        if not self.module:
            return ".".join(map(str, self.go_version[:2]))
        return self._pinned(rf"^(?:require)?\s*{re.escape(self.module)} v(\S+)")

    @cached_property
    def go_version(self) -> tuple[int, ...]:
        """The oldest Go version that go.mod allows."""
        return numbers(self._pinned(r"^go (\S+)"))

    @property
    def contents(self) -> Sequence[str]:
        """The programs."""
        return tuple(self.programs)

    @property
    def ingredients(self) -> Iterable[bytes]:
        """Settings, flags, the machine and the sources."""
        of_others = (sorted(self.packages.items()), self.folders) if self.packages or self.folders else ()
        yield repr((sorted(BUILD_ENVIRONMENT.items()), self.flags, platform(), *of_others)).encode()
        for path in sorted(self.folder.glob("*.go")):
            yield path.read_bytes()
        for name in (self.modfile, f"{self.modfile.removesuffix('.mod')}.sum"):
            if (self.folder / name).exists():
                yield (self.folder / name).read_bytes()

    @property
    def flags(self) -> tuple[str, ...]:
        """Flags of `go build`: no symbol tables, which only a debugger reads."""
        linker = ["-s", "-w"]
        if self.stamps:
            major, minor, _ = self.version.split(".", 2)
            filled = {"version": self.version, "major": major, "minor": minor}
            linker += [f"-X {name}={value.format(**filled)}" for name, value in self.stamps.items()]
        return (*BUILD_FLAGS, f"-ldflags={' '.join(linker)}")

    def make(self, work_folder: Path, assets: Path, progress: Progress) -> None:
        """Compile and link the programs, and check the version that each of them prints."""
        if self.packages:
            for program, package in self.packages.items():
                self._compile(package, work_folder / program, progress)
        else:
            binary = f"{self.name}.bin"  # in a folder of its own, because a program may have the name of the component
            self._compile(".", work_folder / binary, progress)
            for program in self.programs:
                (work_folder / program).symlink_to(binary)
        self._copy_folders(work_folder)
        self._try(work_folder)

    def _compile(self, package: str, target: Path, progress: Progress) -> None:
        command = ["go", "build", "-v", *self.flags, *self._modfile]
        compiled = 0
        downloading = False

        def on_line(line: str | None) -> bool:
            nonlocal compiled, downloading
            names_package = line is not None and re.fullmatch(r"[\w.~/-]+", line) is not None
            compiled += names_package  # -v prints each package when its compilation starts
            if line:
                downloading = line.startswith("go: downloading ")
            progress.show("fetching modules" if downloading and not compiled else f"{compiled} packages compiled")
            return not names_package

        command += ["-o", str(target), package]
        follow(command, self.folder, environment=go_environment(), label=self.label, on_line=on_line)

    @property
    def _modfile(self) -> tuple[str, ...]:
        return () if self.modfile == "go.mod" else (f"-modfile={self.modfile}",)

    def _copy_folders(self, target: Path) -> None:
        """Copy additional folders from Go's module cache."""
        if not self.folders:
            return
        command = ["go", "list", *self._modfile, "-m", "-f", "{{.Dir}}", self.module]
        listed = subprocess.run(
            command, cwd=self.folder, env=go_environment(), check=True, capture_output=True, text=True
        )
        module = Path(listed.stdout.strip())
        for source in (path for name in self.folders for path in (module / name).rglob("*") if path.is_file()):
            copy = target / source.relative_to(
                module
            )  # contents only: the module cache is read-only, including its folders
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(source.read_bytes())

    def _try(self, folder: Path) -> None:
        for program, arguments in self.programs.items():
            if not arguments:
                continue
            command = [str(folder / program), *arguments]
            completed = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
            if completed.returncode != 0 or self.version not in completed.stdout:
                output = (completed.stderr or completed.stdout).strip()[-2000:]
                raise BuildFailed(f"{self.label}: {program} does not report version {self.version}:\n  {output}")

    def _pinned(self, pattern: str) -> str:
        match = re.search(pattern, (self.folder / self.modfile).read_text(), re.MULTILINE)
        if match is None:
            raise ValueError(f"{self.folder / self.modfile} does not contain {pattern!r}")
        return match[1]


def go_environment() -> dict[str, str]:
    """The environment of all Go commands."""
    return {**os.environ, **BUILD_ENVIRONMENT}


def go_settings(*names: str, folder: Path) -> list[str]:
    """Settings of Go in `folder`, by `go env`."""
    command = ["go", "env", *names]
    result = subprocess.run(command, cwd=folder, env=go_environment(), check=True, capture_output=True, text=True)
    return result.stdout.splitlines()
