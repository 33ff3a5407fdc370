"""What there is of releases: EKSAReleases, the Bundles that they name, and the EKS Distro Releases that these name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import semver

from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.distro import DistroRelease
from espalier.api.eksa.group import SYSTEM_NAMESPACE
from espalier.api.eksa.release import Bundles, BundlesRef, EKSARelease
from espalier.api.kinds import KubeObject
from espalier.api.resource import Key, Resource
from espalier.clusters.layers import release
from espalier.kube.objects import Object
from espalier.releases import release_name
from espalier.runtime.cache import Cache, Caches

if TYPE_CHECKING:
    from espalier.runtime.controller import Controller

K = TypeVar("K", bound=KubeObject)


class ReleaseObjects:
    """Their caches."""

    def __init__(self, caches: Caches) -> None:
        self._releases = caches.of(EKSARelease.resource)
        self._bundles = caches.of(Bundles.resource, SYSTEM_NAMESPACE)
        self._distros = caches.of(DistroRelease.resource, SYSTEM_NAMESPACE)
        self._decoded: dict[tuple[Resource, Key], tuple[Object, Any]] = {}

    @property
    def caches(self) -> tuple[Cache, ...]:
        """All of them."""
        return self._releases, self._bundles, self._distros

    def watched_by(self, controller: Controller, waiting: Callable[[Object], Iterable[Key]]) -> None:
        """Have every change bring the Clusters that it concerns: those that are `waiting` for one."""
        for cache in self.caches:
            controller.watch(cache, waiting)

    def versions(self) -> tuple[str, ...]:
        """The eksaVersions of the EKSAReleases that there are."""
        return tuple(sorted(found.decode(EKSARelease).spec.version for found in self._releases.list()))

    def version(self, spec: eksa.ClusterSpec) -> semver.Version | None:
        """The release that `eksaVersion` names; else the first to which the Bundles of `bundlesRef` belong."""
        if spec.bundles_ref is None:
            return release(spec.eksa_version)
        key = Key(spec.bundles_ref.namespace, spec.bundles_ref.name)
        specs = (found.decode(EKSARelease).spec for found in self._releases.list())
        theirs = (release(one.version) for one in specs if Key(one.bundles_ref.namespace, one.bundles_ref.name) == key)
        return min((version for version in theirs if version is not None), default=None)

    def bundles(self, spec: eksa.ClusterSpec) -> Bundles | None:
        """The Bundles that a Cluster names, directly or by its eksaVersion; None when there are none."""
        reference = spec.bundles_ref or self._reference(spec.eksa_version)
        if reference is None:
            return None
        return self._decode(self._bundles.get(Key(reference.namespace, reference.name)), Bundles)

    def distro(self, name: str) -> DistroRelease | None:
        """The EKS Distro Release of a name."""
        return self._decode(self._distros.get(Key(SYSTEM_NAMESPACE, name)), DistroRelease)

    def _reference(self, eksa_version: str | None) -> BundlesRef | None:
        try:
            name = release_name(eksa_version or "")
        except ValueError:
            return None
        found = self._releases.get(Key("", name))
        return found.decode(EKSARelease).spec.bundles_ref if found else None

    def _decode(self, found: Object | None, kind: type[K]) -> K | None:
        """An object of a kind of which few are used by many; to decode Bundles costs more than a whole pass."""
        if found is None:
            return None
        known = self._decoded.get((kind.resource, found.key))
        if known is None or known[0] is not found:
            known = self._decoded[kind.resource, found.key] = (found, found.decode(kind))
        decoded: K = known[1]
        return decoded
