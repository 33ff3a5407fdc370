from __future__ import annotations

import msgspec
import pytest

from espalier.api.eksa.releases.distro import DistroRelease
from espalier.api.eksa.releases.release import Bundles, EKSARelease
from espalier.api.manifests.schema import violations
from espalier.releases import (
    Image,
    Release,
    Releases,
    UnknownKubernetesVersion,
    UnknownRelease,
    UnusableDistro,
    images,
    invalid_images,
    release_name,
    resolve,
    usable,
)

KUBEADM_ASKS_FOR = {
    "1.34": ("v1.34.4-eks-1-34-1", "v3.6.5-eks-1-34-1", "v1.12.1-eks-1-34-1", "3.10.1"),
    "1.35": ("v1.35.4-eks-1-35-1", "v3.6.6-eks-1-35-1", "v1.13.1-eks-1-35-1", "3.10.1"),
    "1.36": ("v1.36.3-eks-1-36-1", "v3.6.8-eks-1-36-1", "v1.14.2-eks-1-36-1", "3.10.2"),
}


@pytest.fixture(scope="module")
def releases() -> Releases:
    return Releases.load()


@pytest.fixture(scope="module")
def newest(releases: Releases) -> Release:
    return releases.newest()


def test_this_build_brings_releases_of_three_minors(releases: Releases, newest: Release) -> None:
    assert releases.versions == ("v0.26.0", "v0.25.1", "v0.25.0", "v0.24.2")
    assert (newest.name, newest.version) == ("eksa-v0-26-0", "v0.26.0")
    assert newest.kubernetes_versions == ("1.34", "1.35", "1.36")
    assert releases.release("v0.26.0") is newest


@pytest.mark.parametrize("minor", KUBEADM_ASKS_FOR)
def test_kubernetes_versions_have_what_kubeadm_needs(releases: Releases, newest: Release, minor: str) -> None:
    distro = releases.distro(newest.resolve(minor))
    assert (distro.version, distro.etcd.tag, distro.coredns.tag, distro.pause.tag) == KUBEADM_ASKS_FOR[minor]
    assert distro.repository == "public.ecr.aws/eks-distro/kubernetes"
    assert distro.etcd.repository == "public.ecr.aws/eks-distro/etcd-io"
    assert distro.coredns.repository == "public.ecr.aws/eks-distro/coredns"
    assert {image.tag for image in distro.images if image.name.startswith("kube-")} == {distro.version}


@pytest.mark.parametrize("minor", KUBEADM_ASKS_FOR)
def test_every_image_has_a_tag_and_a_name_of_its_own(newest: Release, minor: str) -> None:
    everything = images(newest.resolve(minor))
    assert {"kindnetd.image", "cilium.cilium", "cilium.operator", "vSphere.kubeVip", "eksD.kindNode"} <= set(everything)
    assert [str(Image.parse(uri)) for uri in everything.values()] == list(everything.values())
    own = [uri for name, uri in everything.items() if not name.endswith(".kubeVip")]  # it is the same for all providers
    assert len(set(own)) == len(own)


@pytest.mark.demand("V21")
def test_installed_releases_fit_their_schemas(releases: Releases) -> None:
    objects = releases.objects()
    bundles = {object_.metadata.name: object_ for object_ in objects if isinstance(object_, Bundles)}
    installed = [object_ for object_ in objects if isinstance(object_, EKSARelease)]
    assert (len(bundles), len(installed)) == (3, 4)
    for object_ in objects:
        assert violations(type(object_), msgspec.to_builtins(object_)) == []
    for release in installed:
        reference = release.spec.bundles_ref
        named = bundles[reference.name]
        assert (reference.api_version, reference.namespace) == (named.api_version, named.metadata.namespace)
        assert release.metadata.name == release_name(release.spec.version)
        assert named.spec.cli_min_version <= release.spec.version <= named.spec.cli_max_version


def test_one_bundle_serves_several_releases(releases: Releases) -> None:
    first, second = releases.release("v0.25.0"), releases.release("v0.25.1")
    assert first.bundles is second.bundles
    assert first.kubernetes_versions == ("1.34", "1.35")
    assert first.resolve("1.34").end_of_standard_support == "2026-12-02"


OF_LATER_PROVIDERS = {
    *("vSphere.clusterAPIController", "vSphere.manager"),
    *("tinkerbell.clusterAPIController", "tinkerbell.kubeVip"),
    *("nutanix.clusterAPIController", "nutanix.cloudProvider", "nutanix.kubeVip"),
    *("snow.manager", "snow.kubeVip", "snow.bottlerocketBootstrapSnow"),
    *(f"bottlerocketHostContainers.{name}" for name in ("admin", "control", "kubeadmBootstrap")),
    "bottlerocketBootstrapContainers.multiNetworkBootstrap",
    *("cloudStack.clusterAPIController", "cloudStack.kubeVip"),
}
"""Images that came with a provider: clusters of earlier releases do without it."""


def test_releases_have_all_images_of_their_versions(releases: Releases) -> None:
    for version in releases.versions:
        release = releases.release(version)
        for minor in release.kubernetes_versions:
            bundle = release.resolve(minor)
            assert releases.distro(bundle).version == KUBEADM_ASKS_FOR[minor][0]
            since = set(images(releases.newest().resolve(minor))) - set(images(bundle))
            assert since == (set() if release.bundles == releases.newest().bundles else OF_LATER_PROVIDERS)


UNPUBLISHED = {"1.36"}
"""Minors whose end of standard support Amazon EKS had not announced when their Bundles were made."""


def test_releases_tell_when_support_ends(releases: Releases) -> None:
    ends: dict[str, set[str]] = {}
    for version in releases.versions:
        for entry in releases.release(version).bundles.spec.versions_bundles:
            ends.setdefault(entry.kube_version, set()).add(entry.end_of_standard_support)
    assert ends == {"1.34": {"2026-12-02"}, "1.35": {"2027-03-27"}, **{minor: {""} for minor in UNPUBLISHED}}


def test_version_outside_of_bundles_is_refused(newest: Release) -> None:
    with pytest.raises(UnknownKubernetesVersion) as error:
        resolve(newest.bundles, "1.33")
    assert str(error.value) == (
        "Kubernetes 1.33 is not in the Bundles bundles-1 (number 1); they have 1.34, 1.35, 1.36"
    )


def test_releases_that_this_build_lacks_are_refused(releases: Releases, newest: Release) -> None:
    with pytest.raises(UnknownRelease, match=r"there is no release v0\.99\.0; this build has v0\.26\.0, v0\.25\.1"):
        releases.release("v0.99.0")
    stranger = msgspec.structs.replace(newest.resolve("1.35"))
    stranger.eks_d = msgspec.structs.replace(stranger.eks_d, name="kubernetes-1-20-eks-1")
    with pytest.raises(UnknownRelease, match="EKS Distro named kubernetes-1-20-eks-1"):
        releases.distro(stranger)


@pytest.mark.parametrize(
    "uri",
    [
        *("", "etcd", "etcd:v1", "registry.example.com:5000/etcd", "a/:v1", "a/b:"),
        *("a b/c:v1", "https://a/b:v1", f"a/b@sha256:{'0' * 64}", f"a/b:v1@sha256:{'0' * 64}"),
    ],
)
def test_an_image_has_repository_name_and_tag(uri: str) -> None:
    with pytest.raises(ValueError, match="not an image"):
        Image.parse(uri)


def with_image(newest: Release, part: str, field: str, **image: str) -> Bundles:
    """The newest Bundles, with another image in each of their entries."""
    tree = msgspec.to_builtins(newest.bundles)
    for entry in tree["spec"]["versionsBundles"]:
        entry[part][field] = entry[part][field] | image
    return msgspec.convert(tree, Bundles)


DIGEST = "@sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("image", "text"),
    [
        ({"uri": "not an image"}, "not an image"),
        ({"uri": "registry.example.com/a"}, "registry.example.com/a"),
        ({"imageDigest": "sha256:abc"}, "sha256:abc"),
    ],
)
def test_an_image_nobody_can_pull_is_found(newest: Release, image: dict[str, str], text: str) -> None:
    bundles = with_image(newest, "clusterAPI", "controller", **image)
    assert {violation.found for violation in invalid_images(bundles)} == {text}
    assert list(invalid_images(newest.bundles)) == []


def test_the_load_balancer_of_haproxy_has_a_tag(newest: Release) -> None:
    """Its provider takes the image apart at the colon; others may have a digest alone."""
    uri = f"registry.example.com/a{DIGEST}"
    assert list(invalid_images(with_image(newest, "clusterAPI", "controller", uri=uri))) == []
    violations_ = list(invalid_images(with_image(newest, "haproxy", "image", uri=uri)))
    assert {violation.allowed for violation in violations_} == {"registry/name:tag"}


def test_distro_of_another_version_is_refused(releases: Releases, newest: Release) -> None:
    """Bundles that somebody edited, or whose EKS Distro Release was replaced under its name."""
    objects = {object_.metadata.name: object_ for object_ in releases.objects() if isinstance(object_, DistroRelease)}
    entry = newest.resolve("1.35")
    distro = objects[entry.eks_d.name]
    assert usable(newest.bundles, entry, distro) == releases.distro(entry)
    edited = msgspec.structs.replace(entry, kube_version="1.34")
    with pytest.raises(UnusableDistro, match=r"Kubernetes 1\.34: the EKS Distro Release .* is for Kubernetes"):
        usable(newest.bundles, edited, distro)


def test_loaded_releases_read_no_file_again(newest: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    releases = Releases.load()
    entry, loaded = newest.resolve("1.35"), releases.objects()
    monkeypatch.setattr(releases, "_files", None)
    assert releases.distro(entry).name in {item.metadata.name for item in loaded}
