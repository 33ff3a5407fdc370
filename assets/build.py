#!/usr/bin/env python3
"""Build the real programs that tests and benchmarks can run against, from Go modules pinned in this folder.

    python3 assets/build.py                   the real control plane (kube-apiserver, etcd, ...) and Cluster API
    python3 assets/build.py client-go-peer    one component only

Results go to `${ESPALIER_CACHE:-${XDG_CACHE_HOME:-~/.cache}/espalier}/assets/<component>-<version>-<recipe hash>/`,
never into the tree. `assets/envtest-<version>/` there links to what belongs together: `KUBEBUILDER_ASSETS` may name it.

Exit codes: 0 everything is there, 1 a build failed, 2 this machine lacks something that building needs.
Standard library only: it runs before anything is installed.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import os
import queue
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from recipes import BUILD_ENVIRONMENT, BY_NAME, ENVTEST, MIB, TESTED, Component, numbers

SUMS = "SHA256SUMS"
UNFINISHED = ".unfinished-"
"""How the name of a folder begins in which a build is under way, or was when it got killed."""


class BuildFailed(Exception):
    """The compiler, or what it made, failed; the message holds its last words."""


def main(arguments: Sequence[str]) -> int:
    """Build what is asked for and not there yet. Returns the exit code."""
    parser = argparse.ArgumentParser(description="Build real Kubernetes programs into a cache outside the tree.")
    parser.add_argument("component", nargs="*", help=f"{', '.join(BY_NAME)} (without: what tests need)")
    names = parser.parse_args(arguments).component
    if unknown := [name for name in names if name not in BY_NAME]:
        parser.error(f"no component is called {', '.join(unknown)}; there are {', '.join(BY_NAME)}")
    components = [BY_NAME[name] for name in dict.fromkeys(names)] or list(TESTED)
    assets = cache_folder() / "assets"
    try:
        return provide(components, assets)
    except BuildFailed as failure:
        print(failure, file=sys.stderr)
        return 1


def provide(components: Sequence[Component], assets: Path) -> int:
    """Make all components exist below `assets`. Returns the exit code."""
    wanted = [component for component in components if not intact(component, assets)]
    if wanted:
        if missing := missing_tools(wanted, assets):
            print("This machine lacks what building needs:", *missing, sep="\n  - ", file=sys.stderr)
            return 2
        announce(wanted, assets)
        assets.mkdir(parents=True, exist_ok=True)
        with only_one_builder(assets):
            for component in wanted:
                if not intact(component, assets):  # another run may have built it while we waited for our turn
                    build(component, assets)
    for component in components:
        if component not in wanted:
            print(f"{component.label}: up to date")
    if all(component.home(assets).is_dir() for component in ENVTEST):
        print(f"KUBEBUILDER_ASSETS={shlex.quote(str(link_envtest(assets)))}")
    for component in components:
        if component not in ENVTEST:
            home = component.home(assets)
            print(home / component.name if component.name in component.programs else home)
    return 0


# --- What is there -----------------------------------------------------------------------------------------------


def cache_folder() -> Path:
    """`$ESPALIER_CACHE`, else `espalier` in the user's cache folder."""
    if named := os.environ.get("ESPALIER_CACHE"):
        return Path(named).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "espalier"


def intact(component: Component, assets: Path) -> bool:
    """Whether the finished build is there, unchanged since it was made."""
    home = component.home(assets)
    try:
        recorded = (home / SUMS).read_text()
        return recorded == sums(home, component) and all((home / name).exists() for name in component.programs)
    except FileNotFoundError:
        return False


def sums(folder: Path, component: Component) -> str:
    """The checksums of all that was made and copied, as sha256sum writes and reads them."""
    files = [folder / name for name in component.binaries]
    files += sorted(file for name in component.folders for file in (folder / name).rglob("*") if file.is_file())
    return "".join(f"{checksum(file)}  {file.relative_to(folder)}\n" for file in files)


def checksum(file: Path) -> str:
    """The SHA-256 of a file. Raises `FileNotFoundError`."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def missing_tools(components: Sequence[Component], assets: Path) -> list[str]:
    """Everything at once that must be had before the components can be built, each with its remedy."""
    missing = []
    needed = max(component.go_version for component in components)
    go = f"Go {'.'.join(map(str, needed[:2]))} or newer"
    remedy = "install it with your package manager or from go.dev/dl, and put its bin folder on PATH"
    go_cache: Path | None = None
    try:
        found, cache = go_settings("GOVERSION", "GOCACHE", folder=components[0].folder)
    except FileNotFoundError:
        missing.append(f"{go}: no program 'go' on PATH; {remedy}")
    except subprocess.CalledProcessError as error:
        missing.append(f"{go}: {(error.stderr or error.stdout).strip()}; {remedy}")
    else:
        go_cache = Path(cache)
        if numbers(found) < needed:
            missing.append(f"{go}: 'go' on PATH is {found}; {remedy}")
    return missing + missing_space(components, assets, go_cache)


def missing_space(components: Sequence[Component], assets: Path, go_cache: Path | None) -> list[str]:
    """The file systems that are too full for the results, or for what Go keeps while it builds."""
    needs: dict[int, tuple[Path, int]] = {}
    demands = [(assets, sum(component.size for component in components))]
    if go_cache is not None:
        demands.append((go_cache, max(component.workspace for component in components)))
    for folder, size in demands:
        existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
        _, before = needs.get(existing.stat().st_dev, (existing, 0))
        needs[existing.stat().st_dev] = (existing, before + size)
    return [
        f"{size // MIB} MiB of free disk space where {folder} lies ({free // MIB} MiB are free); "
        "free some, or name another place with ESPALIER_CACHE (results) and GOCACHE (Go's own cache)"
        for folder, size in needs.values()
        if (free := shutil.disk_usage(folder).free) < size
    ]


def go_settings(*names: str, folder: Path) -> list[str]:
    """What Go says of itself when it works in `folder`."""
    command = ["go", "env", *names]
    result = subprocess.run(command, cwd=folder, env=environment(), check=True, capture_output=True, text=True)
    return result.stdout.splitlines()


# --- Building ----------------------------------------------------------------------------------------------------


def announce(components: Sequence[Component], assets: Path) -> None:
    """Say what is about to happen, what it costs, and where it goes."""
    print(f"Building into {assets} (times are for two cores and cold caches; Go keeps its own caches beside):")
    for component in components:
        programs = ", ".join(component.programs)
        print(f"  {component.label}: {programs}; {component.size // MIB} MiB, about {component.minutes:g} min")


@contextlib.contextmanager
def only_one_builder(assets: Path) -> Iterator[None]:
    """One run builds at a time; what a killed one has left half done is thrown away."""
    with (assets / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("Another run is building; waiting for it.", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        for remains in assets.glob(f"{UNFINISHED}*"):
            shutil.rmtree(remains)
        yield


def build(component: Component, assets: Path) -> None:
    """Compile, try and check the component in a folder beside its home, which then gets its name."""
    started = time.monotonic()
    workshop = Path(tempfile.mkdtemp(prefix=f"{UNFINISHED}{component.name}-", dir=assets))
    try:
        for binary, package in component.binaries.items():
            compile_binary(component, package, workshop / binary)
        for program in component.programs.keys() - component.binaries.keys():
            (workshop / program).symlink_to(next(iter(component.binaries)))
        copy_folders(component, workshop)
        try_programs(component, workshop)
        (workshop / SUMS).write_text(sums(workshop, component))
        workshop.chmod(0o755)
        home = component.home(assets)
        if home.exists():  # found damaged: out of the way, with the rest of the remains
            home.rename(assets / f"{UNFINISHED}damaged-{os.getpid()}-{home.name}")
        workshop.rename(home)
    finally:
        shutil.rmtree(workshop, ignore_errors=True)
    size = sum((home / binary).stat().st_size for binary in component.binaries)
    print(f"{component.label}: built, {size / MIB:.0f} MiB in {elapsed(started)}", flush=True)


def compile_binary(component: Component, package: str, target: Path) -> None:
    """Run `go build`, showing how far it is. Raises `BuildFailed` with the compiler's last lines."""
    command = ["go", "build", "-v", *component.flags, "-o", str(target), package]
    other_words: deque[str] = deque(maxlen=30)
    packages = 0
    progress = Progress(component.label)
    with running(command, component.folder) as process:
        for line in lines_or_none(process):
            if line is not None and re.fullmatch(r"[\w.~/-]+", line):
                packages += 1  # -v names each package when it begins to compile it
            elif line:
                other_words.append(line)
            downloading = other_words and other_words[-1].startswith("go: downloading ")
            progress.show("fetching modules" if downloading and not packages else f"{packages} packages compiled")
    progress.end()
    if process.returncode != 0:
        words = "\n".join(f"  {line}" for line in other_words)
        raise BuildFailed(f"{component.label}: go build failed (exit code {process.returncode}):\n{words}")


@contextlib.contextmanager
def running(command: Sequence[str], folder: Path) -> Iterator[subprocess.Popen[str]]:
    """The running program with its output as one stream of text; it and its children end with the block."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        process_group=0,
    )
    try:
        yield process
        process.wait()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def lines_or_none(process: subprocess.Popen[str]) -> Iterator[str | None]:
    """The program's lines as they come, and None now and then while none comes, so that a clock can be shown."""
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.put(line.rstrip())
        lines.put(None)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    while True:
        try:
            line = lines.get(timeout=1)
        except queue.Empty:
            yield None
            continue
        if line is None:
            return
        yield line


def copy_folders(component: Component, target: Path) -> None:
    """Take what the component wants besides programs out of Go's module cache."""
    if not component.folders:
        return
    command = ["go", "list", "-m", "-f", "{{.Dir}}", component.module]
    listed = subprocess.run(
        command, cwd=component.folder, env=environment(), check=True, capture_output=True, text=True
    )
    for name in component.folders:
        for source in Path(listed.stdout.strip(), name).rglob("*"):
            if source.is_file():  # contents only: the module cache is read-only, also its folders
                copy = target / name / source.relative_to(Path(listed.stdout.strip(), name))
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(source.read_bytes())


def try_programs(component: Component, folder: Path) -> None:
    """Call each program and hear from it the version that it was built as."""
    for program, arguments in component.programs.items():
        if not arguments:
            continue
        command = [str(folder / program), *arguments]
        said = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
        if said.returncode != 0 or component.version not in said.stdout:
            words = (said.stderr or said.stdout).strip()[-2000:]
            raise BuildFailed(f"{component.label}: {program} does not say that it is {component.version}:\n  {words}")


def link_envtest(assets: Path) -> Path:
    """The folder with the programs of one control plane, by their usual names."""
    folder = assets / f"envtest-{BY_NAME['kubernetes'].version}"
    folder.mkdir(exist_ok=True)
    for component in ENVTEST:
        for program in component.programs:
            target = Path("..") / component.home(assets).name / program
            link = folder / program
            if not link.is_symlink() or link.readlink() != target:
                fresh = folder / f".{program}-{os.getpid()}"
                fresh.symlink_to(target)
                fresh.replace(link)
    return folder


def environment() -> dict[str, str]:
    """The surroundings of every Go command."""
    return {**os.environ, **BUILD_ENVIRONMENT}


@dataclass
class Progress:
    """Tells how far a build is: on a terminal in one line that changes, elsewhere by a line every ten seconds."""

    label: str
    started: float = field(default_factory=time.monotonic)
    shown: float = 0.0
    terminal: bool = field(default_factory=sys.stdout.isatty)

    def show(self, text: str) -> None:
        """Show `text`, unless something was shown just before."""
        now = time.monotonic()
        if now - max(self.shown, self.started) < (0.2 if self.terminal else 10.0):
            return
        self.shown = now
        line = f"{self.label}: {text}, {elapsed(self.started)}"
        print(f"\r\033[K{line}" if self.terminal else line, end="" if self.terminal else "\n", flush=True)

    def end(self) -> None:
        """Take the changing line away."""
        if self.terminal:
            print("\r\033[K", end="", flush=True)


def elapsed(started: float) -> str:
    """The time since `started`, for people."""
    minutes, seconds = divmod(round(time.monotonic() - started), 60)
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"


def stop(signal_number: int, _frame: object) -> None:
    """End as if interrupted, so that what is half done is cleared away and no compiler runs on."""
    raise SystemExit(128 + signal_number)


if __name__ == "__main__":
    if sys.version_info < (3, 11):  # noqa: UP036 - whoever runs this has not installed anything yet
        print(f"Python 3.11 or newer is needed, this is {sys.version.split()[0]}", file=sys.stderr)
        sys.exit(2)
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    sys.exit(main(sys.argv[1:]))
