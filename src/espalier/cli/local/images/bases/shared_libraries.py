"""Which shared libraries programs load, read from their headers: for any architecture, and without running them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile

from espalier.assets.processes import BuildFailed


def needed(program: Path) -> frozenset[str]:
    """Names of the libraries that a program or library asks its loader for. Raises `BuildFailed` for another file."""
    try:
        with program.open("rb") as file:
            sections = [part for part in ELFFile(file).iter_sections() if isinstance(part, DynamicSection)]
            tags = [tag for section in sections for tag in section.iter_tags() if tag.entry.d_tag == "DT_NEEDED"]
            return frozenset(tag.needed for tag in tags)  # type: ignore[attr-defined]  # set for this kind of tag
    except (ELFError, ValueError) as error:
        raise BuildFailed(f"{program.name} is not a program or library that can be read ({error})") from error


def closure(programs: Iterable[Path], find: Callable[[str], Path | None], *, there: Iterable[str] = ()) -> list[Path]:
    """The libraries that programs load, and those that these load; `find` leads from a name to a file.

    Those in `there` are not looked for. Raises `BuildFailed`, which names the libraries that are missing.
    """
    libraries: dict[str, Path] = {}
    known = set(there)
    missing = []
    open_ = list(programs)
    while open_:
        program = open_.pop()
        for name in sorted(needed(program) - known):
            known.add(name)
            place = find(name)
            if place is None:
                missing.append(f"{name} (for {program.name})")
            else:
                libraries[name] = place
                open_.append(place)
    if missing:
        raise BuildFailed(f"the image would lack libraries that programs in it load: {', '.join(sorted(missing))}")
    return [libraries[name] for name in sorted(libraries)]
