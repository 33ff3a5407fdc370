"""Builds missing components: announced, one run at a time, resumable, tested, checksummed."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from espalier.api.version_matrix import ROWS, Row
from espalier.assets.cache import UNFINISHED, is_finished, is_intact, only_one_builder, seal, size_of
from espalier.assets.component import MIB, Component, numbers, with_needs
from espalier.assets.go import GoModule, go_settings
from espalier.assets.processes import Progress, elapsed
from espalier.assets.recipes import ROW, envtest, envtest_folder

Say = Callable[[str], None]

PACKAGES = {"debootstrap": "debootstrap"}
"""Debian packages by program."""


class MissingRequirements(Exception):
    """This machine lacks requirements of the build; `missing` names all of them, each with a remedy."""

    def __init__(self, missing: Sequence[str]) -> None:
        super().__init__("\n  - ".join(["Missing on this machine for building:", *missing]))
        self.missing = missing


def provide(components: Iterable[Component], assets: Path, say: Say) -> list[Component]:
    """Build the components and all they need below `assets`, if missing. Returns those that had to be built.

    Raises `MissingRequirements` before anything is begun, and `BuildFailed`; what was finished until then stays.
    """
    needed = with_needs(components)
    wanted = [component for component in needed if not is_intact(component.home(assets))]
    if wanted:
        if missing := missing_requirements(wanted, assets):
            raise MissingRequirements(missing)
        announce(wanted, assets, say)
        with only_one_builder(assets, say):
            for component in wanted:
                if not is_intact(component.home(assets)):  # another run may have built it while we waited our turn
                    _build(component, assets, say)
    for component in needed:
        if component not in wanted:
            say(f"{component.label}: up to date")
    for row in ROWS.values():
        parts = envtest(row)
        is_wanted = row is ROW or any(part in needed for part in parts)
        if is_wanted and all(is_finished(part.home(assets)) for part in parts):
            say(f"KUBEBUILDER_ASSETS={shlex.quote(str(_link_envtest(assets, row)))}")
    return wanted


def announce(components: Sequence[Component], assets: Path, say: Say) -> None:
    """Announce the builds, their cost and location."""
    say(f"Building into {assets} (times are for two cores and cold caches; Go keeps its own caches beside):")
    for component in components:
        contents = ", ".join(component.contents)
        say(f"  {component.label}: {contents}; {component.size // MIB} MiB, about {component.minutes:g} min")
    size = sum(component.size for component in components) // MIB
    say(f"  together {size} MiB, about {sum(component.minutes for component in components):g} min")


def _build(component: Component, assets: Path, say: Say) -> None:
    """Build the component in a folder beside its home, which then gets its name."""
    started = time.monotonic()
    work_folder = Path(tempfile.mkdtemp(prefix=f"{UNFINISHED}{component.name}-", dir=assets))
    progress = Progress(component.label)
    try:
        component.make(work_folder, assets, progress)
        seal(work_folder)
        work_folder.chmod(0o755)
        home = component.home(assets)
        if home.exists():  # damaged: removed together with other leftovers
            home.rename(assets / f"{UNFINISHED}damaged-{os.getpid()}-{home.name}")
        work_folder.rename(home)
    finally:
        progress.end()
        shutil.rmtree(work_folder, ignore_errors=True)
    say(f"{component.label}: built, {size_of(home) / MIB:.0f} MiB in {elapsed(started)}")


def _link_envtest(assets: Path, row: Row) -> Path:
    """The folder with the programs of one control plane, by their usual names: `KUBEBUILDER_ASSETS` may name it."""
    folder = assets / envtest_folder(row)
    folder.mkdir(exist_ok=True)
    for component in envtest(row):
        for program in component.contents:
            target = Path("..") / component.home(assets).name / program
            link = folder / program
            if not link.is_symlink() or link.readlink() != target:
                fresh = folder / f".{program}-{os.getpid()}"
                fresh.symlink_to(target)
                fresh.replace(link)
    return folder


# --- Requirements of a machine --------------------------------------------------------------------------------


def missing_requirements(components: Sequence[Component], assets: Path) -> list[str]:
    """All missing requirements of the components, each with a remedy."""
    missing = []
    if any(component.as_root for component in components) and os.geteuid() != 0:
        names = ", ".join(component.label for component in components if component.as_root)
        missing.append(f"root, for {names}: run the command as root (sudo -E keeps the cache of the present user)")
    for tool in sorted({tool for component in components for tool in component.tools}):
        if shutil.which(tool) is None:
            missing.append(f"{tool}: no such program on PATH; install it with: apt-get install {PACKAGES[tool]}")
    go_cache: Path | None = None
    if modules := [component for component in components if isinstance(component, GoModule)]:
        go, go_cache = _missing_go(modules)
        missing += go
    return missing + _missing_space(components, assets, go_cache)


def _missing_go(modules: Sequence[GoModule]) -> tuple[list[str], Path | None]:
    """The problem with this machine's Go, if any, and its cache."""
    needed = max(module.go_version for module in modules)
    go = f"Go {'.'.join(map(str, needed))} or newer"
    remedy = "install it with your package manager or from go.dev/dl, and put its bin folder on PATH"
    try:
        present, cache = go_settings("GOVERSION", "GOCACHE", folder=modules[0].folder)
    except FileNotFoundError:
        return [f"{go}: no program 'go' on PATH; {remedy}"], None
    except subprocess.CalledProcessError as error:
        return [f"{go}: {(error.stderr or error.stdout).strip()}; {remedy}"], None
    old = numbers(present) < needed
    return [f"{go}: 'go' on PATH is {present}; {remedy}"] if old else [], Path(cache)


def _missing_space(components: Sequence[Component], assets: Path, go_cache: Path | None) -> list[str]:
    """The file systems with too little space for the results, or for Go's caches during the build."""
    needs: dict[int, tuple[Path, int]] = {}
    demands = [(assets, sum(component.size for component in components))]
    if go_cache is not None:
        demands.append((go_cache, max(component.workspace for component in components)))
    for folder, size in demands:
        existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
        _, before = needs.get(existing.stat().st_dev, (existing, 0))
        needs[existing.stat().st_dev] = (existing, before + size)
    return [
        f"{size // MIB} MiB of free disk space at {folder} ({free // MIB} MiB are free); "
        "free some, or choose another location with ESPALIER_CACHE (results) and GOCACHE (Go's own cache)"
        for folder, size in needs.values()
        if (free := shutil.disk_usage(folder).free) < size
    ]
