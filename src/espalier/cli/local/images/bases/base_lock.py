"""`make base-packages`: lock the newest packages of the base, as Debian's signed indexes name them.

A maintainer's program, on a Debian: it verifies signatures by gpgv and compares versions by dpkg.
"""

from __future__ import annotations

import hashlib
import lzma
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path

from espalier.assets.debian import MIRROR, mirrors, paragraphs
from espalier.cli.local.images.architectures import ARCHITECTURES, PYTHON
from espalier.cli.local.images.bases.base_packages import LOCK, SECONDS, Lock, Package

SUITE = "trixie"
SUITES = (SUITE, f"{SUITE}-updates", f"{SUITE}-security")
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
NAMES = (
    *(f"libpython{PYTHON}-minimal", f"libpython{PYTHON}-stdlib", f"python{PYTHON}-minimal"),
    *("ca-certificates", "netbase", "tzdata"),
    *("libbz2-1.0", "libc6", "libexpat1", "libffi8", "libgcc-s1", "liblzma5", "libssl3t64", "libstdc++6", "libuuid1"),
    *("libzstd1", "zlib1g", "gcc-14-base"),
)
"""Those of the interpreter, of the libraries that it and wheels load, and of the files that they read.

gcc-14-base has the license of two of them.
"""


def main() -> None:
    """Write the lock."""
    newest: dict[tuple[str, str], Package] = {}
    days = []
    for source in mirrors():
        for suite in SUITES:
            release = _release(source, suite)
            if release is None:
                continue
            days.append(parsedate_to_datetime(release["Date"]))
            for architecture in ARCHITECTURES:
                for package in _packages(source, suite, release, architecture):
                    key = (architecture, package.name)
                    if key not in newest or _is_newer(package.version, newest[key].version):
                        newest[key] = package
    missing = [f"{name} ({of})" for of in ARCHITECTURES for name in NAMES if (of, name) not in newest]
    if missing:
        raise SystemExit(f"no mirror of {' '.join(mirrors()) or MIRROR} has {', '.join(missing)}")
    day = max(days).astimezone(UTC) if days else datetime.now(UTC)
    Lock(SUITE, f"{day:%Y-%m-%d}", tuple(newest[key] for key in sorted(newest))).write()
    print(f"{LOCK}: {len(newest)} packages of {day:%Y-%m-%d}")


def _release(source: str, suite: str) -> Mapping[str, str] | None:
    """The fields of a suite's signed index; None where a mirror does not have the suite."""
    try:
        signed = _read(f"{source}/dists/{suite}/InRelease")
    except urllib.error.HTTPError:
        return None
    verified = subprocess.run(
        ["gpgv", "--keyring", str(KEYRING), "--output", "-"],  # noqa: S607
        input=signed,
        capture_output=True,
        check=False,
    )
    if verified.returncode != 0:
        raise SystemExit(f"{source} {suite}: its signature is not one of {KEYRING}: {verified.stderr.decode()}")
    return paragraphs(verified.stdout.decode())[0]


def _packages(source: str, suite: str, release: Mapping[str, str], architecture: str) -> Iterator[Package]:
    path = f"main/binary-{architecture}/Packages.xz"
    words = release["SHA256"].split()
    digests = dict(zip(words[2::3], words[::3], strict=True))
    index = _read(f"{source}/dists/{suite}/{path}")
    if hashlib.sha256(index).hexdigest() != digests.get(path):
        raise SystemExit(f"{source} {suite}: {path} is not what its signed index says")
    for facts in paragraphs(lzma.decompress(index).decode()):
        if facts.get("Package") in NAMES:
            version, digest, size = facts["Version"], facts["SHA256"], int(facts["Size"])
            yield Package(architecture, facts["Package"], version, digest, size, facts["Filename"])


def _read(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=SECONDS) as answer:  # noqa: S310
        content: bytes = answer.read()
        return content


def _is_newer(version: str, other: str) -> bool:
    command = ["dpkg", "--compare-versions", version, "gt", other]
    return subprocess.run(command, check=False).returncode == 0


if __name__ == "__main__":
    main()
