"""A folder of manifests with something wrong in it: every problem is named with file, line and field."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import espalier.releases
from espalier.releases import MalformedRelease, Releases

EMBEDDED = ("v0.26.0", "v0.25.1", "v0.25.0", "v0.24.2")
DATA = Path(espalier.releases.__file__).parent / "data"
Change = Callable[[str, str, str], None]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(DATA, tmp_path / "data"))


@pytest.fixture
def change(folder: Path) -> Change:
    def replace(file: str, old: str, new: str) -> None:
        text = (folder / file).read_text()
        assert old in text
        (folder / file).write_text(text.replace(old, new, 1))

    return replace


def first_entry(folder: Path) -> str:
    mark = "  - date:"
    return mark + (folder / "releases.yaml").read_text().split(mark)[1]


def problems(folder: Path) -> list[str]:
    with pytest.raises(MalformedRelease) as error:
        Releases.load(folder)
    return [str(problem) for problem in error.value.problems]


def test_a_folder_of_the_same_shape_is_read_as_well(folder: Path) -> None:
    assert Releases.load(folder).versions == Releases.load().versions


def test_a_mirror_has_what_manifests_call_by_https(folder: Path) -> None:
    """As published: each file under its host and path."""
    mirror = folder / "assets.example.com" / "releases" / "7"
    mirror.mkdir(parents=True)
    for file in ("releases.yaml", "bundles-1.yaml"):
        text = (folder / file).read_text().replace("embed:///", "https://assets.example.com/releases/7/")
        (folder / file).write_text(text)
    for moved in [*folder.glob("bundles-*.yaml"), folder / "eks-distro"]:
        moved.rename(mirror / moved.name)
    for bundles in mirror.glob("bundles-*.yaml"):
        bundles.write_text(bundles.read_text().replace("embed:///", "https://assets.example.com/releases/7/"))
    mirrored = Releases.load(folder)
    assert mirrored.versions == EMBEDDED
    url = mirrored.release("v0.26.0").eksa_release.spec.bundle_manifest_url
    assert url == "https://assets.example.com/releases/7/bundles-1.yaml"
    bundle = mirrored.release("v0.26.0").bundles.spec.versions_bundles[0]
    assert mirrored.distro(bundle) == Releases.load().distro(bundle)


def test_newer_releases_come_first_by_number(folder: Path, change: Change) -> None:
    entry = first_entry(folder)
    for version in ("v0.27.0-dev+build.9", "v0.27.0-dev+build.10", "v0.9.0"):
        change("releases.yaml", "  releases:\n", "  releases:\n" + entry.replace("v0.26.0", version))
    assert Releases.load(folder).versions == (
        "v0.27.0-dev+build.10",
        "v0.27.0-dev+build.9",
        *EMBEDDED,
        "v0.9.0",
    )


def test_releases_may_share_bundles(folder: Path, change: Change) -> None:
    change("releases.yaml", "  releases:\n", "  releases:\n" + first_entry(folder).replace("v0.26.0", "v0.26.1"))
    names = [item.metadata.name for item in Releases.load(folder).objects()]
    distros = [f"kubernetes-1-{suffix}" for suffix in ("34-eks-2", "35-eks-2", "36-eks-1", "34-eks-1", "35-eks-1")]
    assert names[:10] == [*distros, "bundles-1", "bundles-2", "bundles-3", "eksa-v0-26-1", "eksa-v0-26-0"]


def test_a_file_that_is_not_there(folder: Path) -> None:
    (folder / "bundles-1.yaml").unlink()
    assert problems(folder) == [
        f"bundles-1.yaml: the file is missing in {folder}: No such file or directory",
        "releases.yaml:14: Release eks-a-release: spec.releases[0].bundleManifestUrl: the Bundles of the release are "
        "invalid; see the other errors; found embed:///bundles-1.yaml",
    ]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert problems(tmp_path / "nowhere") == [
        f"{tmp_path}/nowhere: no such folder; give one with releases.yaml and the files that it references"
    ]


@pytest.mark.parametrize("text", ["", "# nothing but a comment\n"])
def test_empty_release_file_is_refused_with_advice(folder: Path, text: str) -> None:
    (folder / "bundles-1.yaml").write_text(text)
    assert "expected one Bundles, as YAML" in problems(folder)[0]


def test_yaml_that_is_none(folder: Path) -> None:
    (folder / "releases.yaml").write_text("kind: [")
    (problem,) = problems(folder)
    assert problem.startswith("releases.yaml:2:1: this is not YAML: ")


def test_a_manifest_of_another_kind(folder: Path) -> None:
    shutil.copy(folder / "bundles-1.yaml", folder / "releases.yaml")
    assert problems(folder) == [
        "releases.yaml:3: Bundles bundles-1: kind: unexpected kind of manifest; "
        "found anywhere.eks.amazonaws.com/v1alpha1 Bundles; allowed: anywhere.eks.amazonaws.com/v1alpha1 Release"
    ]


def test_a_manifest_with_two_objects(folder: Path) -> None:
    text = (folder / "releases.yaml").read_text()
    (folder / "releases.yaml").write_text(f"{text}---\n{text}")
    (problem,) = problems(folder)
    assert "the manifest has more than one object" in problem


def test_fields_that_are_wrong_or_missing_all_at_once(folder: Path, change: Change) -> None:
    change("bundles-1.yaml", "  number: 1\n", "  nummer: 1\n")
    change("bundles-1.yaml", "  - kubeVersion: '1.34'\n", "  - kubeVersion: 1.34\n")
    assert [problem.split(";")[0] for problem in problems(folder)][:3] == [
        "bundles-1.yaml:7: Bundles bundles-1: spec.number: required field is missing",
        "bundles-1.yaml:8: Bundles bundles-1: spec.nummer: unknown field",
        "bundles-1.yaml:12: Bundles bundles-1: spec.versionsBundles[0].kubeVersion: wrong type",
    ]


@pytest.mark.parametrize(
    ("file", "old", "new", "sentence"),
    [
        (
            "releases.yaml",
            "latestVersion: v0.26.0",
            "latestVersion: v0.27.0",
            "releases.yaml:7: Release eks-a-release: spec.latestVersion: no release has this version; found v0.27.0; "
            "allowed: v0.26.0, v0.25.1, v0.25.0, v0.24.2",
        ),
        (
            "releases.yaml",
            "    version: v0.26.0",
            "    version: v0.26.0-",
            "releases.yaml:10: Release eks-a-release: spec.releases[0].version: not a semantic version; found "
            "v0.26.0-; allowed: a version like v0.26.0",
        ),
        (
            "releases.yaml",
            "    version: v0.25.1",
            "    version: v0.25.0",
            "releases.yaml:22: Release eks-a-release: spec.releases[2].version: duplicate version; found v0.25.0",
        ),
        (
            "releases.yaml",
            "'2026-06-19T00:00:00Z'",
            "yesterday",
            "releases.yaml:15: Release eks-a-release: spec.releases[1].date: not a date with time and zone; found "
            "yesterday",
        ),
        (
            "bundles-3.yaml",
            "  name: bundles-3",
            "  name: bundles-2",
            "bundles-3.yaml:6: Bundles bundles-2: metadata.name: the Bundles in embed:///bundles-2.yaml have this name",
        ),
        (
            "bundles-1.yaml",
            "kubeVersion: '1.36'",
            "kubeVersion: '1.36.3'",
            "Bundles bundles-1: spec.versionsBundles[2].kubeVersion: not a Kubernetes minor version; found 1.36.3",
        ),
        (
            "releases.yaml",
            "embed:///bundles-1.yaml",
            "https://example.com/bundles-1.yaml",
            "example.com/bundles-1.yaml: the file is missing in ",
        ),
        (
            "releases.yaml",
            "embed:///bundles-1.yaml",
            "embed:///../bundles-1.yaml",
            "embed:///../bundles-1.yaml: manifests of releases are read from files only; found "
            "embed:///../bundles-1.yaml; allowed: embed:///PATH, or https://HOST/PATH of which the folder has a copy "
            "as HOST/PATH",
        ),
        (
            "releases.yaml",
            "embed:///bundles-1.yaml",
            "https:///etc/bundles-1.yaml",
            "https:///etc/bundles-1.yaml: manifests of releases are read from files only; ",
        ),
        (
            "bundles-1.yaml",
            "  - kubeVersion: '1.35'",
            "  - kubeVersion: '1.34'",
            "spec.versionsBundles[1].kubeVersion: duplicate version; found 1.34",
        ),
        (
            "bundles-1.yaml",
            "      name: kubernetes-1-35-eks-2",
            "      name: kubernetes-1-35-eks-3",
            "spec.versionsBundles[1].eksD.name: its manifest has another name; found kubernetes-1-35-eks-3; "
            "allowed: kubernetes-1-35-eks-2",
        ),
        (
            "bundles-1.yaml",
            "name: kubernetes-1-35-eks-2\n      channel: 1-35\n      kubeVersion: v1.35.4\n      "
            "manifestUrl: embed:///eks-distro/kubernetes-1-35-eks-2.yaml",
            "name: kubernetes-1-34-eks-2\n      manifestUrl: embed:///eks-distro/kubernetes-1-34-eks-2.yaml",
            "bundles-1.yaml:287: Bundles bundles-1: spec.versionsBundles[1].kubeVersion: the EKS Distro Release "
            "kubernetes-1-34-eks-2 that it references is for Kubernetes v1.34.4-eks-1-34-1; found 1.35; allowed: 1.34",
        ),
        ("bundles-1.yaml", "  name: bundles-1\n", "", "metadata: Bundles need a name"),
        (
            "releases.yaml",
            "'2026-06-19T00:00:00Z'",
            "2026-06-31 00:00:00 +0000 UTC",
            "releases.yaml:15: Release eks-a-release: spec.releases[1].date: not a date with time and zone; found "
            "2026-06-31",
        ),
        (
            "releases.yaml",
            "'2026-06-19T00:00:00Z'",
            "0001-01-01 00:00:00 +0100 CET",
            "spec.releases[1].date: not a date with time and zone; found 0001-01-01",
        ),
        (
            "eks-distro/kubernetes-1-36-eks-1.yaml",
            "etcd-io/etcd:v3.6.8-eks-1-36-1",
            "etcd-io/etcd",
            "status.components: no image for etcd-image; found public.ecr.aws/eks-distro/etcd-io/etcd; ",
        ),
        (
            "eks-distro/kubernetes-1-36-eks-1.yaml",
            "etcd-io/etcd:v3.6.8-eks-1-36-1",
            "etcd-io/etcd:v3.4.23-eks-1-36-1",
            "status.components: Kubernetes 1.36 can't use this etcd; found public.ecr.aws/eks-distro/etcd-io/etcd:"
            "v3.4.23-eks-1-36-1; allowed: etcd 3.5.24 to 3.7",
        ),
        *(
            (
                "eks-distro/kubernetes-1-36-eks-1.yaml",
                "etcd-io/etcd:v3.6.8-eks-1-36-1",
                f"etcd-io/etcd:{tag}",
                "status.components: no version in the tag of etcd-image; found public.ecr.aws/eks-distro/etcd-io/etcd:"
                f"{tag}; allowed: a tag that begins with vMAJOR.MINOR.PATCH",
            )
            for tag in ("latest", "v3", "eks-1-36-1")
        ),
        (
            "eks-distro/kubernetes-1-36-eks-1.yaml",
            "kube-apiserver:v1.36.3-eks-1-36-1",
            "kube-apiserver:latest",
            "status.components: no version in the tag of kube-apiserver-image; found public.ecr.aws/eks-distro/"
            "kubernetes/kube-apiserver:latest; allowed: a tag that begins with vMAJOR.MINOR.PATCH",
        ),
        (
            "eks-distro/kubernetes-1-36-eks-1.yaml",
            "kube-proxy:v1.36.3-eks-1-36-1",
            "kube-proxy:v1.35.4-eks-1-35-1",
            "status.components: kubeadm pulls kube-proxy with the tag of kube-apiserver; found public.ecr.aws/"
            "eks-distro/kubernetes/kube-proxy:v1.35.4-eks-1-35-1; allowed: tag v1.36.3-eks-1-36-1",
        ),
        *(
            (
                "bundles-1.yaml",
                "endOfStandardSupport: '2026-12-02'",
                f"endOfStandardSupport: '{date}'",
                f"spec.versionsBundles[0].endOfStandardSupport: not a date; found {date}; allowed: a date like "
                "2027-06-28",
            )
            for date in ("soon", "02.12.2026", "2026-13-01")
        ),
        (
            "eks-distro/kubernetes-1-36-eks-1.yaml",
            "name: coredns-image",
            "name: core-dns-image",
            "status.components: no image for coredns-image; found nothing; allowed: repository/name:tag",
        ),
    ],
)
def test_each_problem_is_named(folder: Path, change: Change, file: str, old: str, new: str, sentence: str) -> None:
    change(file, old, new)
    assert any(sentence in problem for problem in problems(folder)), problems(folder)


def test_one_wrong_version_is_one_problem(folder: Path, change: Change) -> None:
    change("bundles-1.yaml", "kubeVersion: '1.36'", "kubeVersion: v1.36")
    (problem,) = problems(folder)
    assert "not a Kubernetes minor version; found v1.36; allowed: a version like 1.36" in problem


def test_two_files_of_one_release_of_eks_distro(folder: Path, change: Change) -> None:
    shutil.copy(folder / "eks-distro" / "kubernetes-1-35-eks-1.yaml", folder / "eks-distro" / "other.yaml")
    change("bundles-3.yaml", "embed:///eks-distro/kubernetes-1-35-eks-1.yaml", "embed:///eks-distro/other.yaml")
    assert problems(folder) == [
        "eks-distro/other.yaml:5: Release kubernetes-1-35-eks-1: metadata.name: the EKS Distro Release in "
        "embed:///eks-distro/kubernetes-1-35-eks-1.yaml has this name as well; each needs its own; "
        "found kubernetes-1-35-eks-1"
    ]


@pytest.mark.demand("V23")
def test_releases_whose_objects_would_have_one_name(folder: Path, change: Change) -> None:
    change("releases.yaml", "    version: v0.25.1", "    version: v0.25.0-rc.1")
    change("releases.yaml", "    version: v0.25.0\n", "    version: v0.25.0-RC-1\n")
    (problem,) = problems(folder)
    assert "spec.releases[2].version: its EKSARelease would have the name of that of v0.25.0-rc.1" in problem
