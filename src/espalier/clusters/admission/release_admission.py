"""Admission of releases, their Bundles and EKS Distro Releases. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import msgspec

from espalier.api.eksa.releases.distro import DistroRelease
from espalier.api.eksa.releases.release import Bundles, EKSARelease
from espalier.api.eksa.vocabulary import sentences
from espalier.api.kinds import KubeObject
from espalier.api.manifests import schema
from espalier.api.text.violations import Violation, shown
from espalier.clusters.observe.rules import releases
from espalier.kube.objects import Object
from espalier.releases import IncompleteDistro, distro_of, invalid_images, release_name
from espalier.runtime.servers.admission import AdmissionRequest, AdmissionResponse, Handler

K = TypeVar("K", bound=KubeObject)


def unchanging(kind: type[K], violations: Callable[[K], list[Violation]], message: str, *parts: str) -> Handler:
    """A handler that validates objects of a kind on creation, and then keeps these parts immutable: clusters created
    from them would silently change.
    """

    def validate(request: AdmissionRequest) -> AdmissionResponse:
        if request.object is None:
            return AdmissionResponse()
        try:
            new = request.object.decode(kind)
        except msgspec.ValidationError:
            return AdmissionResponse.refuse(request.object, schema.violations(kind, request.object.tree))
        causes = violations(new) if request.old is None else list(_changed(request.old, request.object, parts, message))
        return AdmissionResponse.refuse(request.object, causes) if causes else AdmissionResponse()

    return validate


def _changed(old: Object, new: Object, parts: Iterable[str], message: str) -> Iterator[Violation]:
    """The immutable parts that changed."""
    for part in parts:
        for field, before, after in field_differences(part, old.tree.get(part) or {}, new.tree.get(part) or {}):
            yield Violation(field, after, before, message)


def field_differences(field: str, before: Any, after: Any) -> Iterator[tuple[str, str, str]]:
    """Each field that differs, with both values in a form that may be shown."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted(before.keys() | after.keys()):
            yield from field_differences(f"{field}.{name}", before.get(name), after.get(name))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (element, other) in enumerate(zip(before, after, strict=True)):
            yield from field_differences(f"{field}[{index}]", element, other)
    elif before != after:
        yield field, _text_of(before), _text_of(after)


def _text_of(value: object) -> str:
    return "nothing" if value is None else shown(value)


def _misnamed(release: EKSARelease) -> list[Violation]:
    """A release must be named after its version, so that there is one of each."""
    version, name = release.spec.version, release.metadata.name
    if releases.parsed(version) is None:
        return [Violation("spec.version", version, "a version like v0.26.0", sentences.NOT_SEMVER)]
    if name != release_name(version):
        return [Violation("metadata.name", name, release_name(version), sentences.RELEASE_NAME)]
    return []


def _unusable(bundles: Bundles) -> list[Violation]:
    """Bundles must have each Kubernetes version once, and valid images: afterwards neither can be corrected."""
    versions = [entry.kube_version for entry in bundles.spec.versions_bundles]
    twice = [
        Violation(f"spec.versionsBundles[{index}].kubeVersion", version, "", sentences.VERSION_TWICE)
        for index, version in enumerate(versions)
        if version in versions[:index]
    ]
    return [*twice, *invalid_images(bundles)]


def _lacking(release: DistroRelease) -> list[Violation]:
    """An EKS Distro Release must have all images that a cluster needs."""
    try:
        distro_of(release)
    except IncompleteDistro as error:
        return error.violations
    return []


validate_release = unchanging(EKSARelease, _misnamed, sentences.RELEASE_CHANGED, "spec")
validate_bundles = unchanging(Bundles, _unusable, sentences.BUNDLES_EDITED, "spec")
validate_distro = unchanging(DistroRelease, _lacking, sentences.DISTRO_CHANGED, "spec", "status")
