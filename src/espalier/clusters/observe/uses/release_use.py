"""The Clusters that use a release object: an EKSARelease, Bundles, or an EKS Distro Release."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from espalier.api.eksa.releases.distro import DistroRelease
from espalier.api.eksa.releases.release import Bundles, EKSARelease
from espalier.api.resource import Key
from espalier.clusters.design.release_objects import release_content
from espalier.clusters.design.release_objects.release_objects import ReleaseObjects
from espalier.clusters.observe.scope import is_self_managed, read
from espalier.kube.objects import Object
from espalier.runtime.caches.cache import Cache

BY_RELEASE = "release"


class ReleaseUse:
    """Searches the Clusters of all watched namespaces."""

    def __init__(self, clusters: Cache, releases: ReleaseObjects) -> None:
        self._clusters = clusters
        self._releases = releases
        clusters.add_indexes({BY_RELEASE: _by_release})

    def users(self, object_: Object) -> list[Object]:
        """The Clusters whose spec leads to a release object, whatever digests they carry."""
        values = set(self._named_through(object_))
        users = {user.key: user for value in values for user in self._clusters.by_index(BY_RELEASE, value)}
        return list(users.values())

    def protecting(self, object_: Object) -> list[Key]:
        """The Clusters for which an object must not be deleted.

        An object that was recreated with other content is useless to Clusters made from the original. It may be deleted
        when all Clusters that use it were made from the original: a Cluster's owner can write its digests, so one
        Cluster must not decide for the others.
        """
        name, digest = release_content.name_of(object_), release_content.digest(object_)
        users = {user.key: user for user in self.users(object_)}
        noted = {key: release_content.recorded(user.metadata.annotations).get(name) for key, user in users.items()}
        deciding = [noted[key] for key, user in users.items() if self._decides(user, object_)]
        if deciding and all(seen not in (None, digest) for seen in deciding):
            return []
        return [key for key, seen in noted.items() if seen in (None, digest)]

    def _decides(self, user: Object, object_: Object) -> bool:
        """True if the digest that a Cluster carries, or lacks, counts in that decision.

        Self-managed Clusters carry no digests, because nothing is rendered for them; and Bundles name EKS Distro
        Releases of other Kubernetes versions than a cluster has.
        """
        cluster = read(user)
        if is_self_managed(cluster):
            return False
        is_distro = object_.kind == DistroRelease.resource.kind
        return not is_distro or release_content.name_of(object_) in self._releases.content(cluster.spec)

    def _named_through(self, object_: Object) -> Iterable[str]:
        """The names under which Clusters reference this object."""
        match object_.kind:
            case EKSARelease.resource.kind:
                try:
                    spec = object_.decode(EKSARelease).spec
                except msgspec.ValidationError:  # nothing can be made of it
                    return
                yield _version(spec.version)
                # The upgrade paths of a cluster with bundlesRef depend on the releases that name these Bundles.
                yield _bundles(spec.bundles_ref.namespace, spec.bundles_ref.name)
            case Bundles.resource.kind:
                yield _bundles(object_.namespace, object_.name)
                for release in self._releases.of_bundles(object_.key):
                    yield _version(release.spec.version)
            case DistroRelease.resource.kind:
                for bundles in self._releases.of_distro(object_.name):
                    yield from self._named_through(bundles)


def _version(eksa_version: str) -> str:
    return f"eksaVersion {eksa_version}"


def _bundles(namespace: str, name: str) -> str:
    return f"bundlesRef {namespace}/{name}"


def _by_release(object_: Object) -> Iterable[str]:
    try:
        spec = read(object_).spec
    except msgspec.ValidationError:  # reported by its own reconcile
        return
    if spec.bundles_ref is not None:
        yield _bundles(spec.bundles_ref.namespace, spec.bundles_ref.name)
    elif spec.eksa_version:
        yield _version(spec.eksa_version)
