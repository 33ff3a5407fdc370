"""Which Clusters an object of a release is used by: an EKSARelease, Bundles, or an EKS Distro Release."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from espalier.api.eksa.distro import DistroRelease
from espalier.api.eksa.release import Bundles, EKSARelease
from espalier.api.resource import Key
from espalier.clusters import release_content
from espalier.clusters.release_objects import ReleaseObjects
from espalier.clusters.scope import is_self_managed, read
from espalier.kube.objects import Object
from espalier.runtime.cache import Cache

BY_RELEASE = "release"


class ReleaseUse:
    """Looks at the Clusters of all namespaces that are watched."""

    def __init__(self, clusters: Cache, releases: ReleaseObjects) -> None:
        self._clusters = clusters
        self._releases = releases
        clusters.add_indexes({BY_RELEASE: _by_release})

    def users(self, found: Object) -> list[Object]:
        """The Clusters whose spec leads to an object of a release. What they noted of it counts for nothing here."""
        values = set(self._named_through(found))
        users = {user.key: user for value in values for user in self._clusters.by_index(BY_RELEASE, value)}
        return list(users.values())

    def protecting(self, found: Object) -> list[Key]:
        """The Clusters for which an object has to stay.

        One that took the place of another, and has other content, is of no use to those that were made of that. It may
        go when all that are made of such an object were: owners of a Cluster can write what it noted, and what one of
        them says is nothing to the others.
        """
        name, digest = release_content.name_of(found), release_content.digest(found)
        users = {user.key: user for user in self.users(found)}
        noted = {key: release_content.recorded(user.metadata.annotations).get(name) for key, user in users.items()}
        deciding = [noted[key] for key, user in users.items() if self._decides(user, found)]
        if deciding and all(seen not in (None, digest) for seen in deciding):
            return []
        return [key for key, seen in noted.items() if seen in (None, digest)]

    def _decides(self, user: Object, found: Object) -> bool:
        """Whether a user that noted nothing of an object speaks against that being a replacement.

        Nothing is made of those that manage themselves, so they note nothing; and Bundles name EKS Distro Releases for
        other versions of Kubernetes than a cluster has.
        """
        cluster = read(user)
        if is_self_managed(cluster):
            return False
        is_distro = found.kind == DistroRelease.resource.kind
        return not is_distro or release_content.name_of(found) in self._releases.content(cluster.spec)

    def _named_through(self, found: Object) -> Iterable[str]:
        """What Clusters name, when they use this object."""
        match found.kind:
            case EKSARelease.resource.kind:
                spec = found.decode(EKSARelease).spec
                yield _version(spec.version)
                # Which ways a cluster with Bundles of its own has, follows from the releases that name these.
                yield _bundles(spec.bundles_ref.namespace, spec.bundles_ref.name)
            case Bundles.resource.kind:
                yield _bundles(found.namespace, found.name)
                for release in self._releases.of_bundles(found.key):
                    yield _version(release.spec.version)
            case DistroRelease.resource.kind:
                for bundles in self._releases.of_distro(found.name):
                    yield from self._named_through(bundles)


def _version(eksa_version: str) -> str:
    return f"eksaVersion {eksa_version}"


def _bundles(namespace: str, name: str) -> str:
    return f"bundlesRef {namespace}/{name}"


def _by_release(found: Object) -> Iterable[str]:
    try:
        spec = read(found).spec
    except msgspec.ValidationError:  # said by its own reconcile
        return
    if spec.bundles_ref is not None:
        yield _bundles(spec.bundles_ref.namespace, spec.bundles_ref.name)
    elif spec.eksa_version:
        yield _version(spec.eksa_version)
