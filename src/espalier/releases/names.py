"""Conversion between an eksaVersion and the name of its EKSARelease."""

from __future__ import annotations

import re

_VERSION = re.compile(r"v[0-9]+\.[0-9]+\.[0-9]+(?:-[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?(?:\+[0-9A-Za-z.-]+)?")
_NAME = re.compile(
    r"eksa-(?P<core>v[0-9]+-[0-9]+-[0-9]+)"
    r"(?:-(?P<pre>(?!plus(?:-|$))[0-9a-z]+))?"
    r"(?:-plus-(?P<build>[0-9a-z]+(?:-[0-9]+)?))?"
)


def release_name(eksa_version: str) -> str:
    """The name of the EKSARelease: `v0.26.0` -> `eksa-v0-26-0`, `v0.27.0+build.3` -> `eksa-v0-27-0-plus-build-3`.

    Raises `ValueError` when the text is no version.
    """
    if not _VERSION.fullmatch(eksa_version):
        raise ValueError(f'"{eksa_version}" is not an eksaVersion; expected a version like v0.26.0')
    return "eksa-" + eksa_version.lower().replace("+", "-plus-").replace(".", "-")


def eksa_version_of(name: str) -> str:
    """The eksaVersion of an EKSARelease's name, for versions `vX.Y.Z`, `vX.Y.Z-word` and `…+word` or `…+word.number`.

    Other versions have names as well, but dots and dashes can't be told apart in them: raises `ValueError`.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise ValueError(f'"{name}" is not the name of an EKSARelease; expected a name like eksa-v0-26-0')
    version = match["core"].replace("-", ".")
    if match["pre"]:
        version += f"-{match['pre']}"
    if match["build"]:
        version += "+" + match["build"].replace("-", ".")
    return version
