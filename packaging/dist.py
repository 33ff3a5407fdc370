"""`make dist`: the files of a release, in a folder. Nothing is published.

Both wheels, the manager's image with its digests, the charts in `charts/` if there are any, release notes, and
SHA256SUMS of all of these. The same checkout gives the same bytes.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[1]
SUMS = "SHA256SUMS"
NOTES = "NOTES.md"
DIGESTS = "images.json"


class Unreleasable(Exception):
    """The checkout is not one to release. The message says what is missing, and where."""


def main(arguments: Sequence[str]) -> int:
    """Write the files into the folder that is named."""
    target = Path(*arguments).resolve()  # programs run in other folders
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=target) as name:
        staged = Path(name)
        try:
            version = version_of(CHECKOUT)
            (staged / NOTES).write_text(notes(CHECKOUT / "CHANGELOG.md", version))
            for folder in (CHECKOUT, CHECKOUT / "packaging/local"):
                run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(staged), folder=folder)
            image(staged, version)
            charts(CHECKOUT / "charts", staged)
        except Unreleasable as problem:
            print(f"error: {problem}", file=sys.stderr)
            return 1
        replace(staged, target)
    print((target / SUMS).read_text(), end="")
    return 0


def version_of(checkout: Path) -> str:
    """The version that both distributions have."""
    projects = [tomllib.loads((checkout / place / "pyproject.toml").read_text()) for place in ("", "packaging/local")]
    versions = {str(project["project"]["version"]) for project in projects}
    if len(versions) != 1:
        raise Unreleasable(f"the distributions have different versions: {', '.join(sorted(versions))}; `make release`")
    return versions.pop()


def notes(changelog: Path, version: str) -> str:
    """The changelog's section on a version."""
    sections = re.split(r"^## ", changelog.read_text(), flags=re.MULTILINE)[1:]
    for section in sections:
        heading, _, text = section.partition("\n")
        if re.search(rf"(?<![\d.]){re.escape(version)}(?![\d.])", heading):
            return f"# Espalier {version}\n\n{text.strip()}\n"
    headings = ", ".join(section.partition("\n")[0] for section in sections)
    raise Unreleasable(f"{changelog.name} has no section on {version} (found: {headings}): write one")


def image(target: Path, version: str) -> None:
    """The manager's image for all platforms, and its digests."""
    archive = target / f"espalier-manager-{version}.tar"
    tag = f"espalier.local/manager:v{version}"
    run(sys.executable, "-m", "espalier.cli", "image", "build", "manager", "-o", str(archive), "--tag", tag)
    digests = {"manager": digests_of(archive)}
    (target / DIGESTS).write_text(json.dumps(digests, indent=2, sort_keys=True) + "\n")


def digests_of(archive: Path) -> dict[str, Any]:
    """The digest by which an image is deployed, and those of its platforms."""
    with tarfile.open(archive) as tar:

        def read(name: str) -> Any:
            file = tar.extractfile(name)
            return json.load(file) if file is not None else {}

        top = read("index.json")["manifests"][0]
        images = read(f"blobs/{top['digest'].replace(':', '/')}")["manifests"]
    platforms = {f"{entry['platform']['os']}/{entry['platform']['architecture']}": entry["digest"] for entry in images}
    return {"digest": top["digest"], "platforms": platforms}


def charts(folder: Path, target: Path) -> None:
    """An archive of each chart, as Helm installs it."""
    for chart in sorted(place.parent for place in folder.glob("*/Chart.yaml")):
        match = re.search(r"^version:\s*[\"']?([0-9A-Za-z.+-]+)", (chart / "Chart.yaml").read_text(), re.MULTILINE)
        if match is None:
            raise Unreleasable(f"{chart.name}/Chart.yaml has no version")
        content = io.BytesIO()
        with tarfile.open(fileobj=content, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for path in sorted(path for path in chart.rglob("*") if path.is_file()):
                entry = tarfile.TarInfo(f"{chart.name}/{path.relative_to(chart).as_posix()}")
                entry.size = path.stat().st_size
                with path.open("rb") as file:
                    tar.addfile(entry, file)
        (target / f"{chart.name}-{match[1]}.tgz").write_bytes(gzip.compress(content.getvalue(), mtime=0))


def replace(staged: Path, target: Path) -> None:
    """Move new files into a folder, and remove those of the release that was there; other files stay.

    The sums come last: without them, or with other ones, a release is not complete.
    """
    files = sorted(staged.iterdir())
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    sums = target / SUMS
    before = {line.split("  ", 1)[1] for line in sums.read_text().splitlines()} if sums.exists() else set()
    sums.unlink(missing_ok=True)
    for name in before - {file.name for file in files}:
        if name == os.path.basename(name):
            (target / name).unlink(missing_ok=True)
    for file in files:
        shutil.move(file, target / file.name)
    staged_sums = staged / SUMS
    staged_sums.write_text("".join(lines))
    staged_sums.replace(sums)


def run(*command: str, folder: Path = CHECKOUT) -> None:
    """Run a program whose output people see. Raises `Unreleasable` if it fails."""
    if code := subprocess.run(command, cwd=folder, check=False).returncode:
        raise Unreleasable(f"`{' '.join(command[1:])}` failed (exit code {code})")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
