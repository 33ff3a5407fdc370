"""Contents of Bundles: the versions, the entry for one of them, all images, and the end of support."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime, timedelta

import msgspec

from espalier.api.eksa.releases.components import Image
from espalier.api.eksa.releases.release import Bundles, VersionsBundle
from espalier.api.eksa.vocabulary import sentences
from espalier.api.text.violations import Violation

_LONGEST = 1024
_PATH = r"[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*"
NAME = rf"(([A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9A-Fa-f:]+\])(:[0-9]+)?/)?{_PATH}"
"""The pattern of an image's name, without tag and digest."""
_REFERENCE = re.compile(NAME + r"(?P<tag>:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?P<digest>@sha256:[0-9a-f]{64})?")
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
"""The digest of an image's manifest."""
_BY_DIGEST = "registry/name:tag or registry/name@sha256:..."
_BY_TAG = "registry/name:tag"
_ONLY_BY_TAG = ("haproxy.image",)
"""Images that Cluster API's objects name by repository and tag, without a digest."""
_NO_IMAGE = ("", "<placeholder>")
"""No image: the latter in Bundles of EKS Anywhere for a provider that it no longer builds, as in v0.26.0."""


class UnknownKubernetesVersion(LookupError):
    """Bundles lack a Kubernetes version. The message names the available ones."""

    def __init__(self, version: str, bundles: Bundles) -> None:
        available = ", ".join(kubernetes_versions(bundles))
        super().__init__(
            f"Kubernetes {version} is not in the Bundles {bundles.metadata.name} (number {bundles.spec.number}); "
            f"they have {available}"
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


class UnusableBundles(LookupError):
    """Bundles have values that nothing can be rendered from. The message names each of them, and the remedy."""


def image_at(bundle: VersionsBundle, path: str) -> Image | None:
    """The image in a field of an entry, like `cilium.operator`; None when the entry lacks it, or names none.

    EKS Anywhere names none with a placeholder.
    """
    part: object = bundle
    for name in path.split("."):
        part = getattr(part, re.sub("[A-Z]", lambda match: f"_{match[0].lower()}", name), None)
    return part if isinstance(part, Image) and part.uri not in _NO_IMAGE else None


def check_images(bundles: Bundles, entry: VersionsBundle, asked: Iterable[str], required: Iterable[str] = ()) -> None:
    """Raise `UnusableBundles` unless the images in these fields of an entry are valid: `asked`, as far as the entry
    has them, and `required`.
    """
    needed = dict.fromkeys(asked, False) | dict.fromkeys(required, True)
    uris = {path: image.uri if (image := image_at(entry, path)) else "" for path in needed}
    judged = {path: uri for path, uri in uris.items() if uri or needed[path]}
    if violations := list(_invalid(judged, bundles.spec.versions_bundles.index(entry))):
        which = f"Bundles {bundles.metadata.name}, Kubernetes {entry.kube_version}"
        raise UnusableBundles(f"{which}: {'; '.join(map(str, violations))}; {sentences.BRING_BUNDLES}")


def invalid_images(bundles: Bundles) -> Iterator[Violation]:
    """All images of Bundles that can't be pulled, or checked by their digest, whichever clusters would use them."""
    for index, entry in enumerate(bundles.spec.versions_bundles):
        yield from _invalid(images(entry), index)
        for path, image in _images(entry, ""):
            if image.image_digest and not DIGEST.fullmatch(image.image_digest):
                field = f"spec.versionsBundles[{index}].{path}.imageDigest"
                allowed = "sha256: and 64 hexadecimal digits"
                yield Violation(field, image.image_digest, allowed, "not the digest of an image")


def _invalid(uris: Mapping[str, str], index: int) -> Iterator[Violation]:
    """The images that are invalid, of these by their path in the entry at an index."""
    for path, uri in uris.items():
        has_digest = path not in _ONLY_BY_TAG
        if not _is_usable(uri, has_digest):
            field, allowed = f"spec.versionsBundles[{index}].{path}.uri", _BY_DIGEST if has_digest else _BY_TAG
            yield Violation(field, uri or "nothing", allowed, "not a valid image")


def _is_usable(uri: str, has_digest: bool) -> bool:
    parts = reference(uri)
    if parts is None:
        return False
    if has_digest:
        return bool(parts["tag"] or parts["digest"])
    return bool(parts["tag"]) and not parts["digest"] and "/" in uri


def reference(image: str) -> re.Match[str] | None:
    """The `tag` and `digest` of a valid image reference; None for any other text."""
    return _REFERENCE.fullmatch(image) if len(image) <= _LONGEST else None


def images(bundle: VersionsBundle) -> dict[str, str]:
    """All container images of an entry, from the path of the field (`kindnetd.image`) to the image."""
    return {path: image.uri for path, image in _images(bundle, "") if image.uri not in _NO_IMAGE}


def _images(part: object, path: str) -> Iterator[tuple[str, Image]]:
    if isinstance(part, Image):
        yield path, part
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
