"""Contents of Bundles: the versions, the entry for one of them, all images, and the end of support."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta

import msgspec

from espalier.api.eksa.components import Image
from espalier.api.eksa.release import Bundles, VersionsBundle


class UnknownKubernetesVersion(LookupError):
    """Bundles lack a Kubernetes version. The message names the available ones."""

    def __init__(self, version: str, bundles: Bundles) -> None:
        there = ", ".join(kubernetes_versions(bundles))
        super().__init__(
            f"Kubernetes {version} is not in the Bundles {bundles.metadata.name} (number {bundles.spec.number}); "
            f"they have {there}"
        )
        self.version = version
        self.bundles = bundles


def kubernetes_versions(bundles: Bundles) -> tuple[str, ...]:
    """The Kubernetes minor versions of Bundles, lowest first."""
    versions = {bundle.kube_version for bundle in bundles.spec.versions_bundles}
    return tuple(sorted(versions, key=lambda version: [int(part) for part in version.split(".") if part.isdecimal()]))


def resolve(bundles: Bundles, kubernetes_version: str) -> VersionsBundle:
    """The entry for a Kubernetes minor version like "1.35". Raises `UnknownKubernetesVersion`."""
    for bundle in bundles.spec.versions_bundles:
        if bundle.kube_version == kubernetes_version:
            return bundle
    raise UnknownKubernetesVersion(kubernetes_version, bundles)


def images(bundle: VersionsBundle) -> dict[str, str]:
    """All container images of an entry, from the path of the field (`kindnetd.image`) to the image."""
    return dict(_images(bundle, ""))


def _images(part: object, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(part, Image):
        yield path, part.uri
    elif isinstance(part, msgspec.Struct):
        for field in msgspec.structs.fields(part):
            yield from _images(getattr(part, field.name), f"{path}.{field.encode_name}".lstrip("."))


NOTICE = timedelta(days=60)
"""The warning starts this long before the end of support."""


def support_text(ends: str, now: datetime) -> str:
    """A suffix for a version, with a leading space; empty without a date."""
    return f" (support {'ends' if ends >= now.date().isoformat() else 'ended'} on {ends})" if ends else ""


def is_due(ends: str, now: datetime) -> bool:
    """True if the end is near or past. False for an invalid date."""
    try:
        return date.fromisoformat(ends) <= (now + NOTICE).date()
    except ValueError:
        return False
