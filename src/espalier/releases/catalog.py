"""The releases of this build, as objects to install and as a catalogue for look-ups."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import msgspec
import semver
from msgspec.structs import replace

from espalier.api.eksa.releases.distro import DistroRelease
from espalier.api.eksa.releases.manifest import ReleaseEntry, ReleaseManifest
from espalier.api.eksa.releases.release import Bundles, BundlesRef, EKSARelease, EKSAReleaseSpec, VersionsBundle
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.kinds import KubeObject
from espalier.api.manifests.manifests import Document
from espalier.api.meta import ObjectMeta
from espalier.api.text.versions import parsed
from espalier.api.text.violations import ManifestError, Problem, Violation
from espalier.releases.contents import kubernetes_versions, resolve
from espalier.releases.distro import Distro, IncompleteDistro, distro_of, mismatch, of_other_versions
from espalier.releases.files import MANIFEST, SCHEME, Files, MalformedRelease, of

__all__ = ["MalformedRelease", "Release", "Releases", "UnknownRelease", "release_name"]

_EKSA_VERSION = re.compile(r"v[0-9]+\.[0-9]+\.[0-9]+(?:-[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?(?:\+[0-9A-Za-z.-]+)?")


def release_name(eksa_version: str) -> str:
    """The name of the EKSARelease: `v0.26.0` -> `eksa-v0-26-0`, `v0.27.0+build.3` -> `eksa-v0-27-0-plus-build-3`.

    Raises `ValueError` for an invalid version.
    """
    if not _EKSA_VERSION.fullmatch(eksa_version):
        raise ValueError(f'"{eksa_version}" is not an eksaVersion; expected a version like v0.26.0')
    return "eksa-" + eksa_version.lower().replace("+", "-plus-").replace(".", "-")


class UnknownRelease(LookupError):
    """No release has the eksaVersion. The message names the existing ones."""

    def __init__(self, eksa_version: str, known: Sequence[str]) -> None:
        super().__init__(f"there is no release {eksa_version}; this build has {', '.join(known)}")
        self.eksa_version = eksa_version


class Release(msgspec.Struct, frozen=True):
    """One release: its EKSARelease, its Bundles, and the EKS Distro Releases that these reference."""

    eksa_release: EKSARelease
    bundles: Bundles
    distros: tuple[DistroRelease, ...]

    @property
    def name(self) -> str:
        """Name of the EKSARelease."""
        return self.eksa_release.metadata.name

    @property
    def version(self) -> str:
        """The eksaVersion."""
        return self.eksa_release.spec.version

    @property
    def kubernetes_versions(self) -> tuple[str, ...]:
        """Kubernetes minor versions of this release, lowest first."""
        return kubernetes_versions(self.bundles)

    def resolve(self, kubernetes_version: str) -> VersionsBundle:
        """The components for a Kubernetes minor version. Raises `UnknownKubernetesVersion`."""
        return resolve(self.bundles, kubernetes_version)


class Releases:
    """All releases of this build, newest first. Several may share Bundles."""

    def __init__(self, files: Files) -> None:
        self._files = files

    @classmethod
    def load(cls, path: Path | None = None) -> Releases:
        """Load `releases.yaml` and the files that it references, from a folder or from this package.

        Raises `MalformedRelease` naming every problem of a folder. The package's own files were checked when it was
        built; they are read on demand, because most commands need one of them.
        """
        releases = cls(Files(path))
        if path is not None:
            _ = releases._loaded
        return releases

    @cached_property
    def _loaded(self) -> _Loading:
        return _Loading(self._files)

    @property
    def _releases(self) -> Sequence[Release]:
        return self._loaded.releases

    def newest(self) -> Release:
        """The release with the highest version."""
        return self._releases[0]

    def release(self, eksa_version: str) -> Release:
        """The release of an eksaVersion. Raises `UnknownRelease`."""
        for release in self._releases:
            if release.version == eksa_version:
                return release
        raise UnknownRelease(eksa_version, self.versions)

    @property
    def versions(self) -> tuple[str, ...]:
        """All eksaVersions, newest first."""
        return tuple(release.version for release in self._releases)

    def objects(self) -> list[KubeObject]:
        """Objects to install in a management cluster: EKS Distro Releases, Bundles, and EKSAReleases, referenced
        ones first.
        """
        distros = {distro.metadata.name: distro for release in self._releases for distro in release.distros}
        bundles = {release.bundles.metadata.name: release.bundles for release in self._releases}
        return [*distros.values(), *bundles.values(), *(release.eksa_release for release in self._releases)]

    def distro(self, bundle: VersionsBundle) -> Distro:
        """The EKS Distro release of an entry of Bundles. Raises `UnknownRelease` when this build lacks it."""
        name = bundle.eks_d.name
        if "_loaded" not in self.__dict__ and (distro := self._read_distro(bundle)) is not None:
            return distro
        distros = self._loaded.distros
        if name not in distros:
            raise UnknownRelease(f"of EKS Distro named {name}", sorted(distros))
        return distros[name]

    def _read_distro(self, bundle: VersionsBundle) -> Distro | None:
        """The file that the entry names, if it is among these and has the object."""
        try:
            release, _ = self._files.read(bundle.eks_d.manifest_url, DistroRelease)
        except MalformedRelease:
            return None
        return distro_of(release) if release.metadata.name == bundle.eks_d.name else None


class _Loading:
    """Reads the manifests, every file once. Raises `MalformedRelease` naming every problem."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._bundles: dict[str, Bundles] = {}
        self._files_of: dict[str, str] = {}
        self._problems: list[Problem] = []
        self._distro_releases: dict[str, tuple[str, DistroRelease]] = {}
        self.distros: dict[str, Distro] = {}
        self.releases = sorted(self._read(), key=_order, reverse=True)

    def _read(self) -> list[Release]:
        manifest, document = self._files.read(f"{SCHEME}{MANIFEST}", ReleaseManifest)
        entries = manifest.spec.releases
        versions = [entry.version for entry in entries]
        if manifest.spec.latest_version not in versions:
            self._add(
                document, "spec.latestVersion", manifest.spec.latest_version, "no release has this version", versions
            )
        releases = [self._release(entry, f"spec.releases[{index}]", document) for index, entry in enumerate(entries)]
        by_name: dict[str, str] = {}
        for index, release in enumerate(releases):
            if release is not None and (other := by_name.setdefault(release.name, release.version)) != release.version:
                message = f"its EKSARelease would have the name of that of {other}: {release.name}"
                self._add(document, f"spec.releases[{index}].version", release.version, message)
        for index, version in enumerate(versions):
            if version in versions[:index]:
                self._add(document, f"spec.releases[{index}].version", version, "duplicate version")
        if self._problems:
            raise MalformedRelease(list(dict.fromkeys(self._problems)))  # shared Bundles are read for each release
        return [release for release in releases if release]

    def _release(self, entry: ReleaseEntry, field: str, document: Document) -> Release | None:
        if parsed(entry.version) is None:
            self._add(document, f"{field}.version", entry.version, "not a semantic version", ["a version like v0.26.0"])
            return None
        if _moment(entry.date) is None:
            self._add(
                document, f"{field}.date", entry.date, "not a date with time and zone", [f"a date like {_MOMENT}"]
            )
        try:
            bundles = self._read_bundles(entry.bundle_manifest_url)
        except ManifestError as error:
            self._problems += error.problems
            message = "the Bundles of the release are invalid; see the other errors"
            self._add(document, f"{field}.bundleManifestUrl", entry.bundle_manifest_url, message)
            return None
        names = dict.fromkeys(bundle.eks_d.name for bundle in bundles.spec.versions_bundles)
        distros = [self._distro_releases[name][1] for name in names if name in self._distro_releases]
        return Release(_object(entry, bundles), bundles, tuple(distros))

    def _read_bundles(self, url: str) -> Bundles:
        if url not in self._bundles:
            bundles, document = self._files.read(url, Bundles)
            # Published Bundles name no namespace; EKS Anywhere puts them there.
            namespace = bundles.metadata.namespace or SYSTEM_NAMESPACE
            bundles = replace(bundles, metadata=replace(bundles.metadata, namespace=namespace))
            self._bundles[url] = bundles
            other = self._files_of.setdefault(bundles.metadata.name, url)
            if other != url:
                message = f"the Bundles in {other} have this name as well; each need their own"
                self._add(document, "metadata.name", bundles.metadata.name, message)
            if not bundles.metadata.name:
                self._add(document, "metadata", bundles.metadata.name, "Bundles need a name")
            seen: set[str] = set()
            for index, bundle in enumerate(bundles.spec.versions_bundles):
                field = f"spec.versionsBundles[{index}]"
                if not _MINOR.fullmatch(bundle.kube_version):
                    message = "not a Kubernetes minor version"
                    self._add(document, f"{field}.kubeVersion", bundle.kube_version, message, ["a version like 1.36"])
                if bundle.kube_version in seen:
                    self._add(document, f"{field}.kubeVersion", bundle.kube_version, "duplicate version")
                seen.add(bundle.kube_version)
                if (ends := bundle.end_of_standard_support) and not _DATE.fullmatch(ends):
                    self._add(document, f"{field}.endOfStandardSupport", ends, "not a date", ["a date like 2027-06-28"])
                self._read_distro(bundle, field, document)
        return self._bundles[url]

    def _read_distro(self, bundle: VersionsBundle, field: str, document: Document) -> None:
        name = bundle.eks_d.name
        try:
            release, distro_document = self._files.read(bundle.eks_d.manifest_url, DistroRelease)
        except ManifestError as error:
            self._problems += error.problems
            message = "the EKS Distro release is invalid; see the other errors"
            self._add(document, f"{field}.eksD.manifestUrl", bundle.eks_d.manifest_url, message)
            return
        if release.metadata.name != name:
            self._add(document, f"{field}.eksD.name", name, "its manifest has another name", [release.metadata.name])
            return
        metadata = ObjectMeta(name=name, namespace=SYSTEM_NAMESPACE)  # the release's own manifests name no namespace
        url = bundle.eks_d.manifest_url
        other, _ = self._distro_releases.setdefault(name, (url, replace(release, metadata=metadata)))
        if other != url:
            message = f"the EKS Distro Release in {other} has this name as well; each needs its own"
            self._add(distro_document, "metadata.name", name, message)
        try:
            self.distros[name] = distro_of(release)
        except IncompleteDistro as error:
            self._problems += [
                of(distro_document, distro_document.problem(violation)) for violation in error.violations
            ]
            return
        self._problems += [
            of(distro_document, distro_document.problem(violation))
            for violation in of_other_versions(self.distros[name])
        ]
        problem = mismatch(f"{field}.kubeVersion", bundle.kube_version, self.distros[name])
        if problem and _MINOR.fullmatch(bundle.kube_version):
            self._problems.append(of(document, document.problem(problem)))

    def _add(self, document: Document, field: str, value: str, message: str, allowed: Sequence[str] = ()) -> None:
        self._problems.append(of(document, document.problem(Violation(field, value, ", ".join(allowed), message))))


_MINOR = re.compile(r"[0-9]+\.[0-9]+")
_DATE = re.compile(r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])")
_MOMENT = "2026-08-14T00:00:00Z"


_GO_TIME = re.compile(r"(\S+) ([0-9:]+)(\.[0-9]+)? ([+-][0-9]{4}) \S+")
"""Go's text of a time, `2026-08-13 23:33:21.123456789 +0000 UTC`, which the published manifest has as date."""


def _moment(text: str) -> str | None:
    """A date as an API server accepts it, without fractions of a second if it was Go's text; None if it is no date."""
    go_time = _GO_TIME.fullmatch(text)
    try:
        if go_time is not None:
            moment = datetime.fromisoformat(f"{go_time[1]}T{go_time[2]}{go_time[4]}").astimezone(UTC)
            return f"{moment:%Y-%m-%dT%H:%M:%S}Z" if moment.year >= 1000 else None  # earlier years are not padded
        return text if "T" in text and datetime.fromisoformat(text).tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def _object(entry: ReleaseEntry, bundles: Bundles) -> EKSARelease:
    reference = BundlesRef(bundles.api_version, bundles.metadata.name, bundles.metadata.namespace)
    date = _moment(entry.date) or entry.date
    spec = EKSAReleaseSpec(date, entry.version, entry.git_commit, entry.bundle_manifest_url, reference)
    return EKSARelease(metadata=ObjectMeta(name=release_name(entry.version)), spec=spec)


class _Order(NamedTuple):
    version: semver.Version
    build: tuple[tuple[int, str], ...]


def _order(release: Release) -> _Order:
    """Semantic versions do not order builds; EKS Anywhere does: build.10 is newer than build.9."""
    version = parsed(release.version)
    if version is None:
        raise ValueError(f"{release.version} is not a version")
    build = (version.build or "").split(".")
    return _Order(version, tuple((int(part) if part.isdecimal() else -1, part) for part in build))
