"""The name of an EKSARelease, from its eksaVersion."""

from __future__ import annotations

import re

_VERSION = re.compile(r"v[0-9]+\.[0-9]+\.[0-9]+(?:-[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?(?:\+[0-9A-Za-z.-]+)?")


def release_name(eksa_version: str) -> str:
    """The name of the EKSARelease: `v0.26.0` -> `eksa-v0-26-0`, `v0.27.0+build.3` -> `eksa-v0-27-0-plus-build-3`.

    Raises `ValueError` when the text is no version.
    """
    if not _VERSION.fullmatch(eksa_version):
        raise ValueError(f'"{eksa_version}" is not an eksaVersion; expected a version like v0.26.0')
    return "eksa-" + eksa_version.lower().replace("+", "-plus-").replace(".", "-")
