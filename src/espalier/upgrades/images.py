"""The controller that keeps the map from Kubernetes versions to upgrader images: what Bundles name is added to it.

Nothing is taken out: a version whose Bundles are gone can still be what a machine is being brought to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from espalier.api.core import CONFIG_MAP, ConfigMap
from espalier.api.eksa.group import SYSTEM_NAMESPACE
from espalier.api.eksa.release import Bundles, VersionsBundle
from espalier.api.meta import ObjectMeta
from espalier.api.resource import Key
from espalier.kube.objects import Object
from espalier.runtime.cache import Cache
from espalier.runtime.controller import RESYNC, Controller
from espalier.runtime.outcome import Done, Outcome
from espalier.upgrades import names
from espalier.upgrades.writing import Writer

NAME = "upgraderimages"

_KEY = Key(SYSTEM_NAMESPACE, names.IMAGES)


def version_of(bundle: VersionsBundle) -> str:
    """The Kubernetes version of EKS Distro that machines of this part of Bundles have: v1.36.3-eks-1-36-1."""
    distro = bundle.eks_d
    return f"{distro.kube_version}-eks-{distro.channel}-{distro.name.rpartition('-')[2]}"


def images_of(bundles: Bundles) -> dict[str, str]:
    """Upgrader images by version; parts that name none are left out."""
    found = {version_of(bundle): bundle.upgrader for bundle in bundles.spec.versions_bundles}
    return {
        version: upgrader.upgrader.uri
        for version, upgrader in found.items()
        if upgrader is not None and upgrader.upgrader is not None and upgrader.upgrader.uri
    }


def additions(present: Mapping[str, str], bundles: Iterable[Bundles]) -> dict[str, str]:
    """What the map lacks. Newer Bundles win over older ones; an image that none of them name was put there by somebody,
    for debugging say, and stays."""
    by_age = [images_of(one) for one in sorted(bundles, key=lambda one: one.spec.number)]
    newest = {version: image for images in by_age for version, image in images.items()}
    named = {(version, image) for images in by_age for version, image in images.items()}
    return {
        version: image
        for version, image in sorted(newest.items())
        if present.get(version) != image and (version not in present or (version, present[version]) in named)
    }


class Images:
    """Reconciles the ConfigMap; its key is the only one."""

    def __init__(self, bundles: Cache, config_maps: Cache, writer: Writer) -> None:
        self._bundles = bundles
        self._config_maps = config_maps
        self._writer = writer

    async def reconcile(self, key: Key) -> Outcome:
        """Add what is missing."""
        found = self._config_maps.get(_KEY)
        present = found.decode(ConfigMap).data if found else {}
        missing = additions(present, [one.decode(Bundles) for one in self._bundles.list()])
        if found is not None:
            await self._writer.bring(CONFIG_MAP, found, {"data": missing})
        elif missing:
            metadata = ObjectMeta(name=_KEY.name, namespace=_KEY.namespace)
            await self._writer.create(ConfigMap(metadata=metadata, data=missing))
        return Done()


def controller(bundles: Cache, config_maps: Cache, writer: Writer, *, resync: float = RESYNC) -> Controller:
    """The controller, with its watches."""
    made = Controller(NAME, Images(bundles, config_maps, writer).reconcile, workers=1, resync=resync)

    def the_map(_: Object) -> list[Key]:
        return [_KEY]

    made.watch(bundles, the_map)
    made.watch(config_maps, the_map)
    return made
