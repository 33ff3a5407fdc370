"""`python -m espalier.releases.adding VERSION [BUNDLES]`: the step of releasing that updates the embedded manifest.

The new entry is inserted into the file, comments are kept; the file is checked, and not changed when the check fails.
`make release` calls this.
"""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path

from espalier.api.conditions import timestamp
from espalier.api.eksa.releases.manifest import ReleaseManifest
from espalier.api.text.versions import parsed
from espalier.api.text.violations import ManifestError
from espalier.releases.catalog import Releases
from espalier.releases.files import MANIFEST, SCHEME, Files


def add(folder: Path, version: str, *, date: datetime, commit: str, bundles: str = "") -> str:
    """Write an entry for a version into the manifest of a folder, and return it.

    `bundles` is a file of the folder; by default the Bundles stay those of the newest release. Raises `ValueError` for
    an invalid or existing version, and `ManifestError` when the manifest would not be valid.
    """
    releases = Releases.load(folder)
    wanted = parsed(version) if version.startswith("v") else None
    if wanted is None:
        raise ValueError(f"{version} is not a version; give one like v0.27.0")
    if version in releases.versions:
        raise ValueError(f"{version} is released already, and releases are immutable; give the next version")
    file = folder / MANIFEST
    before = file.read_text()
    newest = releases.newest()
    manifest, _ = Files(folder).read(f"{SCHEME}{MANIFEST}", ReleaseManifest)
    number = max(entry.number for entry in manifest.spec.releases) + 1
    url = f"{SCHEME}{bundles}" if bundles else newest.eksa_release.spec.bundle_manifest_url
    entry = (
        f"  - date: '{timestamp(date)}'\n"
        f"    version: {version}\n    number: {number}\n    gitCommit: {commit}\n    gitTag: {version}\n"
        f"    bundleManifestUrl: {url}\n"
    )
    after = before.replace("  releases:\n", f"  releases:\n{entry}", 1)
    latest = parsed(newest.version)
    if latest is None or wanted > latest:
        after = after.replace(f"  latestVersion: {newest.version}\n", f"  latestVersion: {version}\n", 1)
    file.write_text(after)
    try:
        Releases.load(folder)
    except ManifestError:
        file.write_text(before)
        raise
    return entry


def main(arguments: list[str]) -> None:
    """Add a release to the manifest of this build, with the commit that is checked out."""
    if not 1 <= len(arguments) <= 2:
        sys.exit("give a version, like v0.27.0, and the file of its Bundles if they are new")
    version, bundles = arguments[0], arguments[1] if len(arguments) == 2 else ""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()  # noqa: S607
    folder = Path(str(files("espalier.releases").joinpath("data")))
    try:
        sys.stdout.write(add(folder, version, date=datetime.now(UTC), commit=commit, bundles=bundles))
    except (ValueError, ManifestError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(sys.argv[1:])
