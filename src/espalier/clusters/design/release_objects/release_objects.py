"""Release objects: EKSAReleases, the Bundles that they reference, and the EKS Distro Releases that these reference."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import semver

from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.releases.distro import DistroRelease
from espalier.api.eksa.releases.release import Bundles, BundlesRef, EKSARelease
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.kinds import KubeObject
from espalier.api.resource import Key, Resource
from espalier.clusters.design.layers import release
from espalier.clusters.design.release_objects import release_content
from espalier.clusters.design.render_input import kubernetes_versions
from espalier.kube.objects import Object
from espalier.releases import Uninstalled, release_name
from espalier.runtime.caches.cache import Cache, Caches

if TYPE_CHECKING:
    from espalier.runtime.controllers.controller import Controller

K = TypeVar("K", bound=KubeObject)


class ReleaseObjects:
    """Caches of release objects, and those that the manager could not install."""

    def __init__(self, caches: Caches, uninstalled: Uninstalled | None = None) -> None:
        self._uninstalled = uninstalled if uninstalled is not None else Uninstalled()
        self._releases = caches.of(EKSARelease.resource)
        self._bundles = caches.of(Bundles.resource, SYSTEM_NAMESPACE)
        self._distros = caches.of(DistroRelease.resource, SYSTEM_NAMESPACE)
        self._decoded: dict[tuple[Resource, Key], tuple[Object, Any]] = {}
        self._unreadable: dict[tuple[Resource, Key], str] = {}
        """Both follow from the objects in the caches, which are decoded when they are read first."""

    @property
    def caches(self) -> tuple[Cache, ...]:
        """All caches."""
        return self._releases, self._bundles, self._distros

    def watched_by(
        self,
        controller: Controller,
        waiting: Callable[[], Iterable[Key]],
        users: Callable[[Object], Iterable[Key]],
    ) -> None:
        """Enqueue, for every change, the Clusters that it concerns: its users, and those `waiting` for a release
        object.
        """

        def enqueue_waiting() -> None:
            for key in waiting():
                controller.enqueue(key)

        for cache in self.caches:
            controller.watch(cache, lambda changed: [*users(changed), *waiting()])
        self._uninstalled.when_changed = enqueue_waiting

    def versions(self) -> tuple[str, ...]:
        """The eksaVersions of the existing EKSAReleases."""
        return tuple(sorted(release.spec.version for release in self._readable()))

    def version(self, spec: eksa.ClusterSpec) -> semver.Version | None:
        """The release of `eksaVersion`; else the first release of the Bundles of `bundlesRef`.

        Raises `msgspec.ValidationError` if that can't be known: another release would have other layers.
        """
        if spec.bundles_ref is None:
            return release(spec.eksa_version)
        key = Key(spec.bundles_ref.namespace, spec.bundles_ref.name)
        # Including those not installed: a failed installation must not change the layers of a cluster.
        coming = (object_.spec for object_ in self._uninstalled.objects if isinstance(object_, EKSARelease))
        specs = (*(object_.decode(EKSARelease).spec for object_ in self._releases.list()), *coming)
        theirs = (
            release(release_spec.version)
            for release_spec in specs
            if Key(release_spec.bundles_ref.namespace, release_spec.bundles_ref.name) == key
        )
        return min((version for version in theirs if version is not None), default=None)

    def bundles(self, spec: eksa.ClusterSpec) -> Bundles | None:
        """The Bundles that a Cluster names, directly or by its eksaVersion; None when they do not exist."""
        reference = self.reference(spec)
        if reference is None:
            return None
        return self._decode(self._bundles.get(Key(reference.namespace, reference.name)), Bundles)

    def distro(self, name: str) -> DistroRelease | None:
        """The EKS Distro Release of a name."""
        return self._decode(self._distros.get(_distro_key(name)), DistroRelease)

    def of_bundles(self, bundles: Key) -> list[EKSARelease]:
        """The EKSAReleases that reference Bundles."""
        references = ((release, release.spec.bundles_ref) for release in self._readable())
        return [release for release, reference in references if Key(reference.namespace, reference.name) == bundles]

    def of_distro(self, name: str) -> list[Object]:
        """The Bundles that reference an EKS Distro Release."""
        decoded = ((object_, self._decode(object_, Bundles)) for object_ in self._bundles.list())
        return [
            object_
            for object_, bundles in decoded
            if bundles is not None and any(entry.eks_d.name == name for entry in bundles.spec.versions_bundles)
        ]

    def content(self, spec: eksa.ClusterSpec) -> dict[str, str]:
        """Digests of the existing release objects of a cluster."""
        release = self._releases.get(_key(spec.eksa_version)) if spec.bundles_ref is None else None
        reference = self.reference(spec)
        bundles = self._bundles.get(Key(reference.namespace, reference.name)) if reference is not None else None
        decoded = self._decode(bundles, Bundles)
        entries = decoded.spec.versions_bundles if decoded is not None else []
        versions = kubernetes_versions(spec)
        distros = (
            self._distros.get(_distro_key(entry.eks_d.name)) for entry in entries if entry.kube_version in versions
        )
        present = (object_ for object_ in (release, bundles, *distros) if object_)
        return {release_content.name_of(object_): release_content.digest(object_) for object_ in present}

    def unusable(self, spec: eksa.ClusterSpec) -> str:
        """The release object that a Cluster lacks because it could not be installed, or can't be read, and why; empty
        if there is none.
        """
        if bundles := self.bundles(spec):
            entries = (
                bundle for bundle in bundles.spec.versions_bundles if bundle.kube_version in kubernetes_versions(spec)
            )
            missed = [(DistroRelease.resource, _distro_key(entry.eks_d.name)) for entry in entries]
        elif reference := self.reference(spec):
            missed = [(Bundles.resource, Key(reference.namespace, reference.name))]
        else:
            missed = [(EKSARelease.resource, _key(spec.eksa_version))]
        reasons = (
            text for absent in missed for text in (self._uninstalled.why(*absent), self._unreadable.get(absent, ""))
        )
        return "; ".join(filter(None, reasons))

    def reference(self, spec: eksa.ClusterSpec) -> BundlesRef | None:
        """The reference to a Cluster's Bundles: its own, or that of its EKSARelease; None when that does not exist."""
        if spec.bundles_ref is not None:
            return spec.bundles_ref
        release = self._decode(self._releases.get(_key(spec.eksa_version)), EKSARelease)
        return release.spec.bundles_ref if release else None

    def _readable(self) -> Iterator[EKSARelease]:
        """The EKSAReleases, without those of a newer manager's format: they are no reason to stop other clusters."""
        decoded = (self._decode(object_, EKSARelease) for object_ in self._releases.list())
        return (release for release in decoded if release is not None)

    def _decode(self, object_: Object | None, kind: type[K]) -> K | None:
        """Decode with a cache: few objects are used by many clusters, and decoding Bundles costs more than a
        reconcile. None as well for what can't be read.
        """
        if object_ is None:
            return None
        name = (kind.resource, object_.key)
        known = self._decoded.get(name)
        if known is None or known[0] is not object_:
            self._unreadable.pop(name, None)
            try:
                known = (object_, object_.decode(kind))
            except msgspec.ValidationError as error:
                known = (object_, None)
                self._unreadable[name] = (
                    f"{kind.resource.group_resource} {object_.key} exists, but this manager can't read it ({error}): "
                    "use the manager that it was written for"
                )
            self._decoded[name] = known
        decoded: K | None = known[1]
        return decoded


def _key(eksa_version: str | None) -> Key:
    """The key of the EKSARelease of a version; matches nothing for an invalid version."""
    try:
        return Key("", release_name(eksa_version or ""))
    except ValueError:
        return Key("", "")


def _distro_key(name: str) -> Key:
    return Key(SYSTEM_NAMESPACE, name)
