"""Python libraries for an image: unpacked wheels of locked requirements."""

from __future__ import annotations

import email
import hashlib
import importlib.util
import re
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from espalier.assets.interpreter import Interpreter
from espalier.assets.processes import BuildFailed
from espalier.cli.local.images.architectures import PYTHON, Architecture
from espalier.runtime import confined

LEFT_OUT = (".pyi", ".pyx", ".pxd", ".c", ".h", ".js", "/RECORD", "/INSTALLER", "/REQUESTED", "/direct_url.json")
"""Files that no program reads."""
PRUNED = re.compile(r"botocore/data/|[^/]+/tests/")
"""Beginnings of paths that no program of ours reads: the models of Amazon's services (`providers/snow/checks/signed.py`
has its own of the part in use), and tests."""
FOLDED = ("purelib", "platlib")
"""Folders of a wheel's `.data` whose content belongs next to its packages."""


REQUIREMENT = re.compile(r"^[A-Za-z0-9][^=\s]*==", re.MULTILINE)
"""A requirement in a lock."""
NAME_OF_REQUIREMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(?===)")


@dataclass(frozen=True)
class Library:
    """One library in an image."""

    name: str
    version: str
    license: str
    """An SPDX expression; empty where the author gives none."""
    license_words: str
    """The author's words instead, if these are few."""
    sha256: str
    """The hash of the wheel in the locked requirements."""


def download(
    interpreter: Interpreter,
    architecture: Architecture,
    requirements: Path,
    folder: Path,
    *,
    show: Callable[[str], None],
) -> Sequence[Path]:
    """Have pip download the wheels of locked requirements, and verify their hashes; by name. `show` gets the progress.
    Raises `BuildFailed`.
    """
    pip = importlib.util.find_spec("pip")
    if pip is None or pip.origin is None:
        raise BuildFailed("pip, which downloads the libraries, is not installed beside Espalier: install it there")
    options = [
        "--progress-bar=off",
        "--disable-pip-version-check",
        "--no-deps",
        "--only-binary=:all:",
        "--require-hashes",
    ]
    options += ["--implementation=cp", f"--python-version={PYTHON}"]
    options += [f"--abi={abi}" for abi in (f"cp{PYTHON.replace('.', '')}", "abi3", "none")]
    options += [f"--platform={platform}" for platform in architecture.wheel_platforms]
    # By the image's Python: pip reads conditions of requirements as the Python that runs it, whatever the options say.
    interpreter.run_module(
        "pip",
        ["download", *options, "-r", str(requirements), "-d", str(folder)],
        Path(pip.origin).parents[1],
        on_line=_Counted(architecture.name, len(REQUIREMENT.findall(requirements.read_text())), show).read,
    )
    return sorted(folder.glob("*.whl"))


@dataclass
class _Counted:
    """The progress of pip, from its lines."""

    architecture: str
    total: int
    show: Callable[[str], None]
    number: int = 0
    has_failed: bool = False

    def read(self, line: str | None) -> bool:
        """True for a line that matters: a warning, and an error with all after it."""
        word, _, rest = (line or "").partition(" ")
        if word == "Ignoring":  # a requirement of another Python
            self.total -= 1
        elif word in ("Collecting", "Processing"):
            self.number += 1
            name = NAME_OF_REQUIREMENT.match(rest)
            self.show(
                f"download {name[0] if name else 'libraries'} for {self.architecture} ({self.number} of {self.total})"
            )
        self.has_failed = self.has_failed or word == "ERROR:"
        return self.has_failed or word == "WARNING:"


def unpack(wheel: Path, target: Path) -> Library:
    """Unpack a wheel for import into a folder. Raises `BuildFailed` for an invalid one."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            for entry in archive.infolist():
                place = _place(entry.filename)
                if place is not None:
                    file = target / place
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_bytes(archive.read(entry))
                    file.chmod(0o644)
            described = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
            facts = email.message_from_bytes(archive.read(described))
    except (zipfile.BadZipFile, ValueError, StopIteration) as error:
        raise BuildFailed(f"{wheel.name} is not a wheel that can be unpacked ({error})") from error
    with wheel.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    words = facts.get("License") or ""
    expression = facts.get("License-Expression") or ""
    return Library(facts["Name"], facts["Version"], expression, words if _is_short(words) else "", digest)


def _place(name: str) -> Path | None:
    """Path of a wheel's file below the folder; None for an omitted one. Raises `ValueError`."""
    parts = confined.relative(name)
    if name.startswith("/") or name.endswith(("/", *LEFT_OUT)) or PRUNED.match(name):
        return None
    if parts[0].endswith(".data"):
        return Path(*parts[2:]) if parts[1] in FOLDED else None
    return Path(*parts)


def _is_short(words: str) -> bool:
    return len(words) <= 80 and "\n" not in words
