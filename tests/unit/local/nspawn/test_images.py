from espalier.api.capi.kubeadm import ClusterConfiguration, Dns, Etcd, LocalEtcd
from espalier.local.nspawn import images

BASE = (
    "registry.k8s.io/coredns/coredns:v1.13.1",
    "registry.k8s.io/etcd:3.6.6-0",
    "registry.k8s.io/kube-apiserver:v1.35.4",
    "registry.k8s.io/kube-controller-manager:v1.35.4",
    "registry.k8s.io/kube-proxy:v1.35.4",
    "registry.k8s.io/kube-scheduler:v1.35.4",
    "registry.k8s.io/pause:3.10.1",
)
DISTRO = ClusterConfiguration(
    image_repository="public.ecr.aws/eks-distro/kubernetes",
    etcd=Etcd(local=LocalEtcd(image_repository="public.ecr.aws/eks-distro/etcd-io", image_tag="v3.6.6-eks-1-35-1")),
    dns=Dns(image_repository="public.ecr.aws/eks-distro/coredns", image_tag="v1.13.1-eks-1-35-1"),
)
VERSION = "v1.35.4-eks-1-35-1"


def test_images_of_the_base_get_the_names_that_the_cluster_asks_for() -> None:
    found = images.names(BASE, images.wanted(DISTRO, VERSION), ["example.org/kindnetd:v1"])
    assert found.missing == ()
    assert found.further == {
        "registry.k8s.io/coredns/coredns:v1.13.1": ["public.ecr.aws/eks-distro/coredns/coredns:v1.13.1-eks-1-35-1"],
        "registry.k8s.io/etcd:3.6.6-0": ["public.ecr.aws/eks-distro/etcd-io/etcd:v3.6.6-eks-1-35-1"],
        "registry.k8s.io/pause:3.10.1": ["example.org/kindnetd:v1"],
        **{
            f"registry.k8s.io/{program}:v1.35.4": [f"public.ecr.aws/eks-distro/kubernetes/{program}:{VERSION}"]
            for program in images.PROGRAMS
        },
    }


def test_an_image_of_which_the_base_has_no_program_is_missing() -> None:
    found = images.names(BASE[1:], images.wanted(DISTRO, VERSION))
    assert found.missing == ("public.ecr.aws/eks-distro/coredns/coredns:v1.13.1-eks-1-35-1",)


def test_a_name_that_the_base_has_already_is_not_given_again() -> None:
    found = images.names(BASE, images.wanted(None, "v1.35.4"))
    assert (found.further, found.missing) == ({}, ())


def test_programs_are_known_by_the_last_part_of_a_name() -> None:
    assert images.program_of("registry:5000/a/coredns:v1") == "coredns"
    assert images.program_of("registry:5000/a/etcd@sha256:00") == "etcd"
