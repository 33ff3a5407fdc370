"""Fields of an eksaVersion's objects, and Bundles with another value in each field that nothing uses."""

from __future__ import annotations

from typing import Any

import msgspec

from espalier.api.eksa.releases.distro import DistroRelease
from espalier.api.eksa.releases.release import Bundles, EKSARelease
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.kinds import KubeObject
from espalier.api.meta import Tree
from tests.support.objects.observed_clusters import RELEASES
from tests.support.providers.field_sweep import all_leaves, put_everywhere

VERSION, DISTRO = "1.35", "kubernetes-1-35-eks-2"
ENTRY = "versionsBundles[]."
DIGEST = f"sha256:{'ab' * 32}"
LEAVES: dict[type[KubeObject], list[str]] = {
    EKSARelease: [f"spec.{path}" for path in all_leaves(EKSARelease)],
    Bundles: [f"spec.{path}" for path in all_leaves(Bundles)],
    DistroRelease: [f"{part}.{path}" for part in ("spec", "status") for path in all_leaves(DistroRelease, part)],
}
IMAGES = [path.removesuffix(".imageDigest") for path in LEAVES[Bundles] if path.endswith(".imageDigest")]
"""The fields of Bundles that are images."""
DOCKER, VSPHERE, SNOW = "DockerDatacenterConfig", "VSphereDatacenterConfig", "SnowDatacenterConfig"
USED = {
    "haproxy.image": (DOCKER, ""),
    "eksD.kindNode": (DOCKER, ""),
    "kindnetd.image": ("kindnetd", Reason.BUNDLES_INVALID),
    "cilium.cilium": ("Cilium", Reason.BUNDLES_INVALID),
    "cilium.operator": ("Cilium", Reason.BUNDLES_INVALID),
    "vSphere.manager": (VSPHERE, Reason.EKSA_VERSION_INVALID),
    "vSphere.kubeVip": (VSPHERE, Reason.EKSA_VERSION_INVALID),
    "tinkerbell.kubeVip": ("kube-vip on Tinkerbell", Reason.EKSA_VERSION_INVALID),
    "nutanix.cloudProvider": ("NutanixDatacenterConfig", Reason.EKSA_VERSION_INVALID),
    "nutanix.kubeVip": ("NutanixDatacenterConfig", Reason.EKSA_VERSION_INVALID),
    "cloudStack.kubeVip": ("CloudStackDatacenterConfig", Reason.EKSA_VERSION_INVALID),
    "snow.kubeVip": (SNOW, Reason.EKSA_VERSION_INVALID),
    "snow.bottlerocketBootstrapSnow": ("Bottlerocket on Snow", Reason.EKSA_VERSION_INVALID),
    "bottlerocketHostContainers.admin": ("Bottlerocket on Snow", Reason.EKSA_VERSION_INVALID),
    "bottlerocketHostContainers.control": ("Bottlerocket on Snow", Reason.EKSA_VERSION_INVALID),
    "bottlerocketHostContainers.kubeadmBootstrap": ("Bottlerocket on vSphere", Reason.EKSA_VERSION_INVALID),
    "bottlerocketBootstrapContainers.multiNetworkBootstrap": ("Bottlerocket on vSphere", Reason.EKSA_VERSION_INVALID),
}
"""The images that clusters are rendered with: one of these, and what it says without the image, if it can't be."""
BY_DIGEST = ("kindnetd.image", "cilium.cilium", "cilium.operator")
"""Those of them that are pulled by their digest."""
ELSEWHERE = {
    "kubeVersion": "`test_a_cluster_says_what_its_release_lacks`",
    "eksD.name": "as that",
    "upgrader.upgrader.uri": "upgrades in place: `tests/unit/upgrades`",
    "upgrader.upgrader.imageDigest": "as that",
    "endOfStandardSupport": "a warning: `tests/unit/releases/test_support.py`",
}
"""Fields of Bundles that are used otherwise."""
NOTHING = [
    *(path for path in LEAVES[Bundles] if not path.startswith(f"spec.{ENTRY}")),
    *(
        f"spec.{ENTRY}{path}"
        for path in (
            leave.removeprefix(f"spec.{ENTRY}") for leave in LEAVES[Bundles] if leave.startswith(f"spec.{ENTRY}")
        )
        if path not in ELSEWHERE
        and path.removesuffix(".uri") not in USED
        and path.removesuffix(".imageDigest") not in BY_DIGEST
    ),
]
"""Fields of Bundles that nothing is made of: see decision 0031."""


def leaf(path: str) -> str:
    return path.rpartition(".")[2]


def valid(path: str) -> Any:
    """A value for a field, other than the one in this build's releases."""
    image = path.removesuffix(".uri")
    match leaf(path):
        case "uri" if image in IMAGES or image.endswith("assets[].image"):
            return f"registry.example/{image.rpartition('.')[0].lower().replace('[]', '')}/a:v9"
        case "imageDigest":
            return DIGEST
        case "arch[]":
            return ["amd64"]
        case "number":
            return 7
    return "https://example.com/another"


def bundles() -> Tree:
    """Those of the newest release, with every field that there is in the entry for one Kubernetes version."""
    tree = tree_of(RELEASES.newest().bundles)
    for path in LEAVES[Bundles]:
        below = path.removeprefix(f"spec.{ENTRY}")
        if below != path and below not in ("kubeVersion", "eksD.name"):
            put_missing(entry(tree), below, valid(path))
    return tree


def put_missing(tree: Tree, path: str, value: Any) -> None:
    part, _, below = path.partition(".")
    if below:
        put_missing(tree.setdefault(part, {}), below, value)
    else:
        tree.setdefault(part.removesuffix("[]"), value)


def entry(tree: Tree) -> Tree:
    return next(bundle for bundle in tree["spec"]["versionsBundles"] if bundle["kubeVersion"] == VERSION)


def tree_of(object_: KubeObject) -> Tree:
    tree: Tree = msgspec.json.decode(msgspec.json.encode(object_))
    return tree


ODD = "odd \x1b[31m \u202e\n"
OTHER, OTHER_DIGEST = "other.example/a/b:v9", f"sha256:{'cd' * 32}"


def odd_bundles() -> Tree:
    """Bundles that have something else in each field that nothing is made of."""
    odd = bundles()
    for path in NOTHING:
        value: Any = OTHER if path.removesuffix(".uri") in IMAGES else valid(path)
        if value == valid("name"):
            value = ODD
        written_to = entry(odd) if path.startswith(f"spec.{ENTRY}") else odd
        put_everywhere(written_to, path.removeprefix(f"spec.{ENTRY}"), OTHER_DIGEST if value == DIGEST else value)
    return odd
