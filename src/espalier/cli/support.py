"""End of support of a cluster's Kubernetes version, as its Bundles say."""

from __future__ import annotations

import msgspec

from espalier.api.eksa.cluster import ClusterSpec
from espalier.api.eksa.release import Bundles, BundlesRef, EKSARelease
from espalier.api.meta import Tree
from espalier.kube.client import Client
from espalier.kube.errors import Forbidden, NotFound
from espalier.releases import UnknownKubernetesVersion, release_name, resolve


async def end_of_support(client: Client, cluster: Tree) -> str:
    """The date, empty where nobody said one, or where it can't be read."""
    try:
        spec = msgspec.convert(cluster["spec"], ClusterSpec)
        reference = spec.bundles_ref or await _reference(client, spec.eksa_version or "")
        found = await client.get(Bundles.resource, reference.name, reference.namespace)
        return resolve(found.decode(Bundles), spec.kubernetes_version).end_of_standard_support
    except (Forbidden, NotFound, UnknownKubernetesVersion, ValueError):  # also of an object that is none
        return ""


async def _reference(client: Client, eksa_version: str) -> BundlesRef:
    found = await client.get(EKSARelease.resource, release_name(eksa_version))
    return found.decode(EKSARelease).spec.bundles_ref
