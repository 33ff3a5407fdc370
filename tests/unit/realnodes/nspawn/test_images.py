import pytest

from espalier.realnodes.nspawn import images
from espalier.releases import Releases

BASE = {
    "registry.k8s.io/coredns/coredns:v1.13.1": "sha256:1",
    "registry.k8s.io/etcd:3.6.6-0": "sha256:2",
    "registry.k8s.io/kube-apiserver:v1.35.4": "sha256:3",
    "registry.k8s.io/kube-controller-manager:v1.35.4": "sha256:4",
    "registry.k8s.io/kube-proxy:v1.35.4": "sha256:5",
    "registry.k8s.io/kube-scheduler:v1.35.4": "sha256:6",
    "registry.k8s.io/pause:3.10.1": "sha256:7",
}


@pytest.fixture(scope="module")
def asked() -> list[images.RequestedImage]:
    return images.asked_for(Releases.load())


def test_images_of_the_base_get_their_requested_names(
    asked: list[images.RequestedImage],
) -> None:
    names = images.further_names("1.35.4", BASE, asked)
    assert names.keys() == BASE.keys()
    assert names["registry.k8s.io/kube-proxy:v1.35.4"] == [
        "public.ecr.aws/eks-distro/kubernetes/kube-proxy:v1.35.4-eks-1-35-1"
    ]
    assert any("kindnetd" in name for name in names["registry.k8s.io/pause:3.10.1"])


def test_requested_images_have_digests(asked: list[images.RequestedImage]) -> None:
    known = images.by_name("1.35.4", BASE, asked)
    releases = Releases.load()
    distro = releases.distro(releases.newest().resolve("1.35"))
    assert [str(image) for image in distro.images if str(image) not in known] == []


def test_missing_images_of_a_base_are_known_before(asked: list[images.RequestedImage]) -> None:
    assert images.lacking("1.35.4", BASE, asked) == []
    without = [name for name in BASE if "etcd" not in name and "pause" not in name]
    assert images.lacking("1.35.4", without, asked) == ["etcd", "pause"]
    assert images.lacking("1.99.0", [], asked) == []


def test_no_image_has_the_name_of_another_version(asked: list[images.RequestedImage]) -> None:
    assert [name for name in images.by_name("1.35.4", BASE, asked) if "1-36" in name] == []


def test_programs_are_known_by_the_last_part_of_a_name() -> None:
    assert images.program_of("registry:5000/a/coredns:v1") == "coredns"
    assert images.program_of("registry:5000/a/etcd@sha256:00") == "etcd"
