"""The controller of the ConfigMap of upgrader images: it adds the images that Bundles name, by Kubernetes version.

It removes nothing: a machine may still be upgraded to a version whose Bundles are gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from espalier.api.core import CONFIG_MAP, ConfigMap
from espalier.api.eksa.releases.components import Image
from espalier.api.eksa.releases.distro import DistroRelease
from espalier.api.eksa.releases.release import Bundles, VersionsBundle
from espalier.api.eksa.vocabulary.upgrade_keys import REGISTRY_ANNOTATION
from espalier.api.meta import ObjectMeta
from espalier.api.resource import Key
from espalier.kube.objects import Object, readable
from espalier.releases.contents import DIGEST, reference
from espalier.releases.distro import IncompleteDistro, distro_of
from espalier.runtime.caches.cache import Cache
from espalier.runtime.controllers.controller import RESYNC, Controller
from espalier.runtime.controllers.outcome import Done, Outcome
from espalier.runtime.controllers.writer import Writer
from espalier.upgrades import names

NAME = "upgraderimages"

REFERENCES = "an image like registry.example/upgrader:v1.36.3, with a digest (@sha256:...) if it is known"


def version_of(bundle: VersionsBundle, versions: Mapping[str, str] | None = None) -> str:
    """The EKS Distro version of machines of this VersionsBundle, such as v1.36.3-eks-1-36-1.

    `versions` are those of the existing EKS Distro Releases, by name; the result is empty if the release does not
    exist. Without `versions`, it is derived from the name of the release.
    """
    distro = bundle.eks_d
    if versions is not None:
        return versions.get(distro.name, "")
    return f"{distro.kube_version}-eks-{distro.channel}-{distro.name.rpartition('-')[2]}"


def is_reference(image: str) -> bool:
    """True if a text is a valid image reference. The image runs privileged on nodes, so all else is rejected."""
    return reference(image) is not None


def images_of(bundles: Bundles, versions: Mapping[str, str] | None = None) -> dict[str, str]:
    """Upgrader images by version, pinned by digest if the Bundles have a digest."""
    upgraders = {version_of(bundle, versions): bundle.upgrader for bundle in bundles.spec.versions_bundles}
    return {
        version: _pinned(upgrader.upgrader)
        for version, upgrader in upgraders.items()
        if version and upgrader is not None and upgrader.upgrader is not None and is_reference(upgrader.upgrader.uri)
    }


def _pinned(image: Image) -> str:
    is_usable = DIGEST.fullmatch(image.image_digest) and "@" not in image.uri
    return f"{image.uri}@{image.image_digest}" if is_usable else image.uri


def additions(
    present: Mapping[str, str],
    bundles: Iterable[Bundles],
    registry: str = "",
    versions: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The entries to add to the ConfigMap or to update in it, by version; newer Bundles win over older Bundles.

    An image that none of them names was set by a person, for example to debug, and stays.
    """
    by_age = [images_of(bundle, versions) for bundle in sorted(bundles, key=lambda bundle: bundle.spec.number)]
    newest = {version: in_registry(image, registry) for images in by_age for version, image in images.items()}
    named = {
        (version, in_registry(name, prefix))
        for images in by_age
        for version, image in images.items()
        for name in _names_of(image)
        for prefix in {"", registry}
    }
    return {
        version: image
        for version, image in sorted(newest.items())
        if present.get(version) != image and (version not in present or (version, present[version]) in named)
    }


def in_registry(image: str, registry: str) -> str:
    """The image in another registry (`registry.example.com:5000/mirror`): the host is replaced, the path stays."""
    host, _, path = image.partition("/")
    has_host = path and (host == "localhost" or "." in host or ":" in host)
    return f"{registry.rstrip('/')}/{path if has_host else image}" if registry else image


def _names_of(image: str) -> tuple[str, str]:
    """The reference of an image with and without its digest, which earlier versions of Espalier did not add."""
    return image, image.partition("@")[0]


class Images:
    """Reconciles the ConfigMap of upgrader images, whatever the key."""

    def __init__(self, bundles: Cache, distros: Cache, config_maps: Cache, writer: Writer) -> None:
        self._bundles = bundles
        self._distros = distros
        self._config_maps = config_maps
        self._writer = writer

    async def reconcile(self, key: Key) -> Outcome:
        """Add the entries that are missing, and create the ConfigMap if there are any."""
        config_map = self._config_maps.get(names.IMAGES_KEY)
        present = config_map.decode(ConfigMap).data if config_map else {}
        registry = config_map.metadata.annotations.get(REGISTRY_ANNOTATION, "") if config_map else ""
        bundles = readable(self._bundles.list(), Bundles)  # clusters that use unreadable Bundles report that
        missing = additions(present, bundles, registry, dict(self._versions()))
        if config_map is not None:
            await self._writer.merge(CONFIG_MAP, config_map, {"data": missing})
        elif missing:
            metadata = ObjectMeta(name=names.IMAGES_KEY.name, namespace=names.IMAGES_KEY.namespace)
            await self._writer.create(CONFIG_MAP, ConfigMap(metadata=metadata, data=missing))
        return Done()

    def _versions(self) -> Iterator[tuple[str, str]]:
        for distro in self._distros.list():
            try:
                yield distro.name, distro_of(distro.decode(DistroRelease)).version
            except (IncompleteDistro, msgspec.ValidationError):
                continue  # it is unusable; clusters that use it report that


def controller(
    bundles: Cache, distros: Cache, config_maps: Cache, writer: Writer, *, resync: float = RESYNC
) -> Controller:
    """The controller, with its watches."""
    controller_ = Controller(NAME, Images(bundles, distros, config_maps, writer).reconcile, workers=1, resync=resync)

    def images_key(_: Object) -> list[Key]:
        return [names.IMAGES_KEY]

    controller_.watch(bundles, images_key)
    controller_.watch(distros, images_key)
    controller_.watch(config_maps, images_key)
    return controller_
