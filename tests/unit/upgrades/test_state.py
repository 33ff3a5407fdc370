"""The desired state of Cluster API's objects, the part of a change that is possible in place, and the image for it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from espalier.api.eksa.releases.distro import DistroRelease
from espalier.api.eksa.releases.release import Bundles
from espalier.api.meta import Tree
from espalier.kube.objects import Object, encode_json
from espalier.releases import Releases
from espalier.releases.distro import distro_of
from espalier.upgrades import expected, images, names
from tests.support.objects.observed_upgrades import machine

CONTROL_PLANE: Tree = {
    "version": "v1.36.3",
    "kubeadmConfigSpec": {
        "clusterConfiguration": {"imageRepository": "r", "etcd": {"local": {"imageTag": "v3.6.8"}}},
        "initConfiguration": {"nodeRegistration": {"criSocket": "new"}},
        "joinConfiguration": {"nodeRegistration": {"criSocket": "new"}},
    },
}
GATE = {"ControlPlaneKubeletLocalMode": True}


@pytest.mark.demand("U21")
def test_set_one_of_init_and_join_follows() -> None:
    began = {
        "initConfiguration": {"nodeRegistration": {"criSocket": "old"}},
        "clusterConfiguration": {"featureGates": GATE},
    }
    after = expected.control_plane_config(CONTROL_PLANE, "v1.36.3", began)
    assert after["initConfiguration"] == {"nodeRegistration": {"criSocket": "new"}}
    assert "joinConfiguration" not in after
    assert after["clusterConfiguration"] == CONTROL_PLANE["kubeadmConfigSpec"]["clusterConfiguration"]
    patch = expected.replacement(began, after)
    assert patch["clusterConfiguration"]["featureGates"] is None, "1.36 knows the gate no longer"


def test_joined_machine_keeps_its_discovery() -> None:
    joined = {"joinConfiguration": {"discovery": {"bootstrapToken": {"token": "t"}}, "controlPlane": {}}}
    after = expected.control_plane_config(CONTROL_PLANE, "v1.36.3", joined)
    assert after["joinConfiguration"] == {
        "nodeRegistration": {"criSocket": "new"},
        "discovery": {"bootstrapToken": {"token": "t"}},
        "controlPlane": {},
    }
    assert "initConfiguration" not in after


def test_a_machine_keeps_the_endpoint_that_it_knows() -> None:
    """Cluster API fills it in for each machine; without it, kubeadm asks the machine's own API server alone."""
    present = {"clusterConfiguration": {"controlPlaneEndpoint": "10.0.0.9:6443"}}
    after = expected.control_plane_config(CONTROL_PLANE, "v1.36.3", present)
    assert after["clusterConfiguration"]["controlPlaneEndpoint"] == "10.0.0.9:6443"


@pytest.mark.parametrize(
    ("version", "has_gate"), [("v1.30.9", False), ("v1.31.0", True), ("v1.35.4", True), ("v1.36.3", False)]
)
def test_the_gate_of_the_provider_goes_by_the_version(version: str, has_gate: bool) -> None:
    after = expected.control_plane_config(CONTROL_PLANE, version, {"initConfiguration": {}})
    assert ("featureGates" in after["clusterConfiguration"]) is has_gate


def test_worker_without_joining_keeps_its_discovery() -> None:
    joined = {"joinConfiguration": {"discovery": {"bootstrapToken": {"token": "t"}}, "nodeRegistration": {}}}
    _, after = expected.worker_config({}, "t", joined)
    assert after == {"joinConfiguration": {"discovery": {"bootstrapToken": {"token": "t"}}}}


@pytest.mark.parametrize("joined", [{}, {"discovery": {"file": {}}}])
def test_a_worker_gets_all_that_its_template_says(joined: Tree) -> None:
    asked: Tree = {"files": [{"path": "/a"}], "joinConfiguration": {"nodeRegistration": {"name": "n"}}}
    _, after = expected.worker_config({"template": {"spec": asked}}, "t", {"joinConfiguration": joined})
    assert after == asked | {"joinConfiguration": {"nodeRegistration": {"name": "n"}, **joined}}


def test_machine_tells_its_configuration() -> None:
    def recorded_configuration(control_plane: Tree) -> str:
        recorded = expected.control_plane_machine(control_plane, "v1.36.3")["metadata"]["annotations"]
        return str(recorded["controlplane.cluster.x-k8s.io/kubeadm-cluster-configuration"])

    assert recorded_configuration(CONTROL_PLANE) == '{"etcd":{"local":{"imageTag":"v3.6.8"}},"imageRepository":"r"}'
    assert recorded_configuration({"kubeadmConfigSpec": {}}) == "{}"


def test_changes_that_a_node_has_are_not_repeated() -> None:
    spec: Tree = {"files": [{"path": "/a", "content": "old"}]}
    config = Object(encode_json({"kind": "KubeadmConfig", "metadata": {"name": "m"}, "spec": spec}))
    view = replace(machine("m"), config=config)
    assert expected.changes(view, spec) == ""
    changes = expected.decoded(expected.changes(view, {"files": [{"path": "/a", "content": "new"}]}))
    assert [file["path"] for file in changes["files"]] == ["/a"]
    assert expected.changes(machine("m"), spec) == "", "what its node has is not known"


def test_spec_is_carried_unchanged() -> None:
    assert expected.decoded(expected.encoded(CONTROL_PLANE)) == CONTROL_PLANE
    for text in ("e", "bm8=", "W10="):
        with pytest.raises(ValueError, match=r".*"):
            expected.decoded(text)


def bundles() -> list[Bundles]:
    return [object_ for object_ in Releases.load().objects() if isinstance(object_, Bundles)]


@pytest.mark.demand("U50", "U51", "U52")
def test_versions_of_releases_have_upgrader_images() -> None:
    releases = Releases.load()
    versions = {
        object_.metadata.name: distro_of(object_).version
        for object_ in releases.objects()
        if isinstance(object_, DistroRelease)
    }
    entries = images.additions({}, bundles(), versions=versions)
    wanted = {releases.distro(part).version for bundle in bundles() for part in bundle.spec.versions_bundles}
    assert entries.keys() == wanted


@pytest.mark.demand("U51")
def test_newer_bundles_win_and_edits_stay() -> None:
    older = bundles()[0]
    newer = msgspec.convert(msgspec.to_builtins(older), Bundles)
    newer.spec.number = older.spec.number + 100
    upgrader = newer.spec.versions_bundles[0].upgrader
    assert upgrader is not None
    assert upgrader.upgrader is not None
    upgrader.upgrader.uri = "registry.example/upgrader:new"
    version = images.version_of(newer.spec.versions_bundles[0])
    before = images.additions({}, [older])
    assert images.additions(before, [newer, older]) == {version: "registry.example/upgrader:new"}
    assert images.additions(before | {version: "debug"}, [newer, older]) == {}
    assert images.additions(before, [older]) == {}


def test_unusable_distro_blocks_no_other_version() -> None:
    """Whoever may write EKS Distro Releases would stop all upgrades in place with one."""
    releases = [object_ for object_ in Releases.load().objects() if isinstance(object_, DistroRelease)]
    complete, incomplete = (Object(encode_json(msgspec.to_builtins(release))) for release in releases[:2])
    wrong = Object(encode_json({**complete.tree, "status": {"components": "none"}}))
    incomplete = Object(encode_json({**incomplete.tree, "status": {**incomplete.tree["status"], "components": []}}))
    written: list[Tree] = []

    async def create(_resource: Any, body: Any) -> None:
        written.append(body.data)

    of_bundles = [Object(encode_json(msgspec.to_builtins(bundle))) for bundle in bundles()]
    of: Any = SimpleNamespace(list=lambda: of_bundles)
    distros: Any = SimpleNamespace(list=lambda: [wrong, incomplete, complete])
    maps: Any = SimpleNamespace(get=lambda _key: None)
    writer: Any = SimpleNamespace(create=create)
    asyncio.run(images.Images(of, distros, maps, writer).reconcile(names.IMAGES_KEY))
    assert [list(data) for data in written] == [[distro_of(releases[0]).version]]


@pytest.mark.parametrize(
    ("image", "path"),
    [
        ("localhost/upgrader:v1", "upgrader:v1"),
        ("registry.local/a/upgrader:v1", "a/upgrader:v1"),
        ("mirror:5000/upgrader:v1", "upgrader:v1"),
        ("library/upgrader:v1", "library/upgrader:v1"),
        ("upgrader:v1", "upgrader:v1"),
    ],
)
def test_host_of_image_is_replaced_and_no_folder(image: str, path: str) -> None:
    assert images.in_registry(image, "mirror.example/") == f"mirror.example/{path}"


@pytest.mark.demand("U50")
def test_images_are_named_in_the_requested_registry() -> None:
    """Entries that the manager wrote follow; one that somebody wrote stays."""
    (version, uri), *_ = images.additions({}, bundles()).items()
    path = uri.partition("/")[2]
    moved = images.additions({version: uri}, bundles(), "registry.example:5000/mirror/")
    assert moved[version] == f"registry.example:5000/mirror/{path}"
    assert images.additions(moved, bundles(), "registry.example:5000/mirror/") == {}
    assert images.additions(moved | {version: "debug"}, bundles(), "registry.example:5000/mirror/") == {}
    assert images.additions(moved, [], "") == {}
    assert images.in_registry("upgrader:v1", "registry.example") == "registry.example/upgrader:v1"
    assert images.in_registry("aws/upgrader:v1", "registry.example") == "registry.example/aws/upgrader:v1"


DIGEST = f"sha256:{'ab' * 32}"


def with_digest(digest: str) -> tuple[Bundles, str, str]:
    """Bundles with a digest of one upgrader image, its version, and how it is named without."""
    made = msgspec.convert(msgspec.to_builtins(bundles()[0]), Bundles)
    upgrader = made.spec.versions_bundles[0].upgrader
    assert upgrader is not None
    assert upgrader.upgrader is not None
    upgrader.upgrader.image_digest = digest
    return made, images.version_of(made.spec.versions_bundles[0]), upgrader.upgrader.uri


def test_image_is_named_by_digest_of_bundles() -> None:
    made, version, uri = with_digest(DIGEST)
    assert images.additions({}, [made])[version] == f"{uri}@{DIGEST}"
    by_tag = images.additions({}, bundles())
    assert by_tag[version] == uri
    assert images.additions(by_tag, [made]) == {version: f"{uri}@{DIGEST}"}
    assert images.additions(by_tag | {version: "debug"}, [made]) == {}


@pytest.mark.parametrize("digest", ["sha256:short", "latest", "sha256:AB\nx"])
def test_an_invalid_digest_is_left_out(digest: str) -> None:
    made, version, uri = with_digest(digest)
    assert images.additions({}, [made])[version] == uri


@pytest.mark.parametrize(
    ("image", "is_reference"),
    [
        ("registry.example:5000/a/b_c/upgrader:v1.36.3-eks-1-36-1", True),
        ("debug", True),
        (f"public.ecr.aws/eks-anywhere/aws/upgrader@{DIGEST}", True),
        (f"registry.example/upgrader:v1@{DIGEST}", True),
        ("", False),
        ("registry.example/upgrader:v1\n  privileged: true", False),
        ("https://registry.example/upgrader:v1", False),
        ("registry.example/../upgrader", False),
        ("registry.example/upgrader:", False),
        ("registry.example/upgrader@sha256:short", False),
        ("a" * 5000, False),
    ],
)
def test_only_names_of_images_are_passed_on(image: str, is_reference: bool) -> None:
    assert images.is_reference(image) is is_reference
