"""Every field of the kinds of a release: what clusters are rendered with shows in them, and nothing else does.

A wrong value is refused by the schema or the webhook, which name the field, or its clusters say what is missing, or it
is a field that nothing is made of (`docs/decisions/0031-releases-of-clusters.md`). No field is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from espalier.api.capi import cluster as capi
from espalier.api.definitions.crd import crd_of
from espalier.api.eksa.releases.distro import DistroRelease
from espalier.api.eksa.releases.release import Bundles, EKSARelease
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.kinds import KubeObject
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.clusters.admission.release_admission import validate_bundles, validate_distro, validate_release
from espalier.clusters.design import names
from espalier.clusters.design.render.api_server import authenticator
from espalier.clusters.design.render.layered import rendered
from espalier.clusters.observe.scope import Scope
from espalier.clusters.report.status import status_of
from espalier.clusters.report.validity import problem
from espalier.kube.objects import to_bytes
from espalier.runtime.controllers.outcome import Done
from tests.support.objects.made_clusters import objects, settled
from tests.support.objects.observed_clusters import GARDEN, NAMESPACE, NOW, RELEASES, as_object, example, observer
from tests.support.objects.release_fields import (
    BY_DIGEST,
    DIGEST,
    DISTRO,
    DOCKER,
    ENTRY,
    IMAGES,
    LEAVES,
    ODD,
    OTHER,
    OTHER_DIGEST,
    USED,
    bundles,
    entry,
    leaf,
    odd_bundles,
    tree_of,
)
from tests.support.objects.render_inputs import documents
from tests.support.providers import every_provider, snow, tinkerbell, vsphere
from tests.support.providers import field_sweep as sweep
from tests.support.providers.every_provider import SAMPLES
from tests.support.providers.field_sweep import (
    WRONG_TYPES,
    Values,
    all_leaves,
    counted,
    created,
    fields,
    is_of_wrong_type,
    named,
    put_everywhere,
)
from tests.support.sampling import sampled

KINDS = (EKSARelease, Bundles, DistroRelease)
VALIDATE = {EKSARelease: validate_release, Bundles: validate_bundles, DistroRelease: validate_distro}


def release() -> Tree:
    return tree_of(RELEASES.newest().eksa_release)


def distro() -> Tree:
    """With programs of etcd, which those of this build don't have."""
    tree = tree_of(next(object_ for object_ in RELEASES.objects() if object_.metadata.name == DISTRO))
    (etcd,) = (component for component in tree["status"]["components"] if component["name"] == "etcd")
    archive = {"uri": "https://example.com/etcd.tar.gz", "sha256": "a", "sha512": "b"}
    etcd["assets"].append({"name": "etcd-linux-amd64", "type": "Archive", "arch": ["amd64"], "archive": archive})
    return tree


EXAMPLES = {EKSARelease: release, Bundles: bundles, DistroRelease: distro}


def written(kind: type[KubeObject], *paths: str, value: Any) -> Tree:
    """The object with a value in these fields; of Bundles, in the entry for the version."""
    tree = EXAMPLES[kind]()
    place = entry(tree) if kind is Bundles else tree
    for path in paths:
        below = path.removeprefix(f"spec.{ENTRY}")
        put_everywhere(tree if below == path else place, below, value)
    return tree


def webhook(kind: type[KubeObject], tree: Tree) -> list[str]:
    """The answer of the webhook."""
    return [f"{cause.field}: {cause.message}" for cause in VALIDATE[kind](created(tree)).causes]


def refusals(kind: type[KubeObject], trees: list[Tree]) -> list[list[str]]:
    """The refusals of each, by the API server or the webhook."""
    return sweep.refusals(kind, trees, VALIDATE[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_value_of_wrong_type_is_refused_in_every_field(kind: type[KubeObject]) -> None:
    for value in WRONG_TYPES:
        wrong = [path for path in LEAVES[kind] if is_of_wrong_type(kind, path, value)]
        (causes,) = refusals(kind, [written(kind, *wrong, value=value)])
        left = {named(path) for path in wrong} - fields(causes)
        assert left == set(), value


@pytest.mark.parametrize("kind", [Bundles, DistroRelease])
def test_numbers_begin_with_one(kind: type[KubeObject]) -> None:
    result = refusals(kind, [written(kind, "spec.number", value=value) for value in (0, -1)])
    assert [fields(causes) - {"<nil>"} for causes in result] == [{"spec.number"}] * 2


IMAGE = Values(
    ["a.example/b:v1", f"a.example/b@{DIGEST}", f"a.example:443/b/c:v1@{DIGEST}", "[fd00::1]:443/b:v1", ""],
    [
        *("a.example/b", "https://a.example/b:v1", "a b:v1", "a.example/B:v1", "a.example/b:", ":v1", " "),
        *("a.example/b@sha256:ab", f"a.example/b:{'x' * 129}", f"{'a' * 1_000_000}:v1", "-1", "a.example/b:v1\n"),
    ],
)
IMAGE_DIGEST = Values([DIGEST, ""], ["sha256:ab", "ab" * 32, "latest", "x" * 1_000_000, DIGEST.upper()])


OF_IMAGES = [
    *(
        ("uri", value, is_valid)
        for is_valid, values in ((True, IMAGE.accepted), (False, IMAGE.refused))
        for value in values
    ),
    *(("imageDigest", value, True) for value in IMAGE_DIGEST.accepted),
    *(("imageDigest", value, False) for value in IMAGE_DIGEST.refused),
]


@pytest.mark.parametrize(
    ("last", "value", "is_valid"),
    sampled(OF_IMAGES, 1, 3, 5, 18),
    ids=[f"{image[0]} {image[1][:20]!r}" for image in OF_IMAGES],
)
def test_an_image_is_valid_or_refused_in_every_field(last: str, value: str, is_valid: bool) -> None:
    images = IMAGES if len(value) < 1000 else IMAGES[:1]
    if is_valid and last == "uri" and "@" in value:
        images = [image for image in images if "haproxy" not in image]  # by its tag alone
    paths = [f"{image}.{last}" for image in images]
    (causes,) = refusals(Bundles, [written(Bundles, *paths, value=value)])
    assert fields(causes) == (set() if is_valid else {named(path) for path in paths})
    assert all("; allowed: " in cause and len(cause) < 1000 for cause in causes)


def clusters() -> dict[str, list[Tree]]:
    """Clusters that are rendered with all that Bundles may have."""
    return {
        **{sample.kind: sample.cluster(NAMESPACE, sample.name) for sample in SAMPLES.values()},
        "Cilium": example("docker-cilium.yaml"),
        "kube-vip on Tinkerbell": tinkerbell.manifest(),
        "Bottlerocket on vSphere": vsphere.everything_with_bottlerocket(),
        "Bottlerocket on Snow": snow.everything_with_bottlerocket(),
        "kindnetd": [*example(identityProviderRefs=[{"kind": "AWSIamConfig", "name": "garden"}]), IAM],
    }


IAM = {
    "apiVersion": EKSARelease.resource.api_version,
    "kind": "AWSIamConfig",
    "metadata": {"name": "garden", "namespace": NAMESPACE},
    "spec": {"awsRegion": "us-west-2", "backendMode": ["EKSConfigMap"]},
}


def seen(trees: list[Tree], *releases: Tree) -> Scope:
    """A cluster of the newest release, with these in place of some objects of releases."""
    for number, tree in enumerate(trees):
        tree["metadata"] |= {"namespace": NAMESPACE, "uid": f"uid-{number}", "generation": 1, "resourceVersion": "7"}
        tree["metadata"] |= {"creationTimestamp": "2026-01-01T00:00:00Z"}
    trees[0]["spec"]["eksaVersion"] = RELEASES.newest().version
    name = trees[0]["metadata"]["name"]
    brought = [item for sample in SAMPLES.values() for item in (*sample.credentials(NAMESPACE), *sample.machines(1))]
    fork: Tree = msgspec.json.decode(to_bytes(crd_of(capi.Cluster)))
    registry = every_provider.registry([NAMESPACE])
    known = observer(*trees, *brought, registry, fork, *others_of(*releases), *releases, with_releases=False)
    scope = known.scope(Key(NAMESPACE, name))
    assert scope is not None
    return scope


def others_of(*releases: Tree) -> list[Tree]:
    """The objects of releases of this build but these."""
    replaced = {(item["kind"], item["metadata"]["name"]) for item in releases}
    others = [tree_of(object_) for object_ in RELEASES.objects()]
    return [other for other in others if (other["kind"], other["metadata"]["name"]) not in replaced]


def shown(scope: Scope) -> list[Any]:
    """The rendered objects of a cluster."""
    assert problem(scope) is None
    assert scope.render_input is not None, scope.missing
    rendering = rendered(scope.render_input)
    etcd = [rendering.etcd.machine_template, rendering.etcd.cluster] if rendering.etcd is not None else []
    more = [*rendering.extras, *etcd, *(item.body for item in authenticator.workload(scope.render_input))]
    return [*documents(rendering), *map(msgspec.to_builtins, more)]


@pytest.mark.parametrize("image", sampled(USED, 0, 3))
def test_field_shows_in_a_cluster_rendered_with_it(image: str) -> None:
    trees = clusters()[USED[image][0]]
    changes = {"uri": OTHER, **({"imageDigest": OTHER_DIGEST} if image in BY_DIGEST else {})}
    for last, value in changes.items():
        tree = written(Bundles, f"spec.{ENTRY}{image}.{last}", value=value)
        assert webhook(Bundles, tree) == []
        assert shown(seen(trees, tree)) != shown(seen(trees, bundles()))


def test_whatever_else_release_has_shows_in_no_cluster() -> None:
    """Text may be any: Bundles of EKS Anywhere have more than this build reads."""
    odd = odd_bundles()
    facts = release()
    facts["spec"] |= {"date": "1999-12-31T23:59:59+14:00", "gitCommit": ODD, "bundleManifestUrl": ODD}
    facts["spec"]["bundlesRef"]["apiVersion"] = ODD
    assert refusals(Bundles, [odd]) == refusals(EKSARelease, [facts]) == [[]]
    for trees in clusters().values():
        before = shown(seen(trees, bundles()))
        assert shown(seen(trees, odd, facts)) == before


@pytest.mark.parametrize("image", sampled(USED, 0, 2, 5))
def test_a_cluster_says_what_its_bundles_lack(image: str) -> None:
    name, reason = USED[image]
    trees = clusters()[name]
    empty = problem(seen(trees, written(Bundles, f"spec.{ENTRY}{image}.uri", value="")))
    assert (empty.reason if empty else "") == reason
    if empty is None:
        shown(seen(trees, written(Bundles, f"spec.{ENTRY}{image}.uri", value="")))
    else:
        assert image.rpartition(".")[2] in empty.message
    invalid = problem(seen(trees, written(Bundles, f"spec.{ENTRY}{image}.uri", value="a b")))  # no webhook was asked
    assert invalid is not None
    assert invalid.reason == Reason.BUNDLES_INVALID
    assert f"{image}.uri: not a valid image; found a b; allowed: " in invalid.message


MISSING = "x" * 300_000
LACKING: dict[str, tuple[type[KubeObject], str, Any, str, str]] = {
    "an EKS Distro Release that is not there": (
        Bundles,
        f"spec.{ENTRY}eksD.name",
        "gone",
        "EksdReleaseInvalid",
        "gone",
    ),
    "none": (Bundles, f"spec.{ENTRY}eksD.name", "", "EksdReleaseInvalid", "Kubernetes 1.35"),
    "a name that no object has": (
        Bundles,
        f"spec.{ENTRY}eksD.name",
        MISSING,
        "EksdReleaseInvalid",
        "300000 characters",
    ),
    "one of another version": (
        Bundles,
        f"spec.{ENTRY}eksD.name",
        "kubernetes-1-34-eks-2",
        "EksdReleaseInvalid",
        "is for Kubernetes v1.34",
    ),
    "another version": (Bundles, f"spec.{ENTRY}kubeVersion", "1.99", "ClusterInvalid", "they have 1.34, 1.36, 1.99"),
    "no version": (
        Bundles,
        f"spec.{ENTRY}kubeVersion",
        "",
        "ClusterInvalid",
        "spec.kubernetesVersion: Kubernetes 1.35",
    ),
    "a text as a version": (Bundles, f"spec.{ENTRY}kubeVersion", "\u0661.x" * 6, "ClusterInvalid", "1.34, 1.36"),
    "Bundles that are not there": (
        EKSARelease,
        "spec.bundlesRef.name",
        "gone",
        "BundleNotFoundForCluster",
        "spec.bundlesRef of EKSARelease eksa-v0-26-0: the Bundles do not exist; found eksa-system/gone",
    ),
    "Bundles that can't be": (
        EKSARelease,
        "spec.bundlesRef.name",
        MISSING,
        "BundleNotFoundForCluster",
        "300000 characters",
    ),
    "Bundles where nobody reads them": (
        EKSARelease,
        "spec.bundlesRef.namespace",
        NAMESPACE,
        "BundleNotFoundForCluster",
        f"found {NAMESPACE}/bundles-1; allowed: Bundles in namespace {SYSTEM_NAMESPACE}",
    ),
    "an image of Kubernetes that is none": (
        DistroRelease,
        "status.components[].assets[].image.uri",
        "a b/c:d",
        "EksdReleaseInvalid",
        "no image for etcd-image; found a b/c:d; allowed: repository/name:tag",
    ),
    "no image of Kubernetes": (
        DistroRelease,
        "status.components[].assets[].name",
        "another",
        "EksdReleaseInvalid",
        "no image for coredns-image; found nothing",
    ),
}
"""Objects that an API server without webhooks stores; and the messages of clusters with them."""


@pytest.mark.parametrize("what", LACKING)
def test_a_cluster_says_what_its_release_lacks(what: str) -> None:
    kind, path, value, reason, message = LACKING[what]
    tree = written(kind, path, value=value)
    if kind is DistroRelease:
        assert fields(webhook(kind, tree)) == {"status.components"}
    else:
        assert refusals(kind, [tree]) == [[]]
    result = problem(seen(example(), tree))
    assert result is not None
    assert result.reason == reason
    assert message in result.message
    assert len(result.message) < 2000, "a condition has room for 32768"


@pytest.mark.parametrize("what", LACKING)
def test_settled_cluster_stays_whatever_its_release(what: str) -> None:
    kind, path, value, *_ = LACKING[what]
    cluster, *others = example()
    cluster["status"] = settled()
    before = seen([cluster, *others, *objects()])
    result = seen([cluster, *others, *objects()], written(kind, path, value=value))
    assert before.is_settled
    assert result.is_settled
    assert result.content_hash == before.content_hash
    status = status_of(result, Done(), NOW)
    assert status.ready
    assert status.spec_valid == (kind is DistroRelease or what == "one of another version")  # else it is missing
    (synced,) = (condition for condition in status.conditions if condition.type == names.SYNCED)
    assert (synced.status, synced.reason) == ("Unknown", "NotComparable")


IMAGES_OF_KUBERNETES = Values(
    ["a.example/b:v1.35.9", "a.example:443/b/c:v1.35.9", "[fd00::1]:443/b:v1.35.9"],
    ["", "b:v1", "a.example/b", f"a.example/b@{DIGEST}", f"a.example/b:v1@{DIGEST}", "a b/c:d", "https://a/b:c"],
)


def test_kubernetes_image_has_repository_and_tag_only() -> None:
    path = "status.components[].assets[].image.uri"
    for value in IMAGES_OF_KUBERNETES.accepted:
        assert webhook(DistroRelease, with_version_of_etcd(written(DistroRelease, path, value=value))) == []
    for value in IMAGES_OF_KUBERNETES.refused:
        causes = webhook(DistroRelease, written(DistroRelease, path, value=value))
        assert fields(causes) == {"status.components"} or (value == "" and causes), value


def with_version_of_etcd(tree: Tree) -> Tree:
    """Give etcd's image a version of etcd, where each image has one of Kubernetes."""
    for asset in (asset for part in tree["status"]["components"] for asset in part["assets"]):
        if asset["name"] == "etcd-image":
            asset["image"]["uri"] = "registry.example/x/etcd:v3.6.9-eks-1-35-9"
    return tree


OF_DISTRO = {
    "status.components[].assets[].image.uri": "registry.example/x/y:v1.35.9-eks-1-35-9",
    "status.components[].assets[].archive.uri": "https://other.example/etcd.tar.gz",
    "status.components[].assets[].arch[]": ["arm64"],
    "status.components[].name": "another",
}
"""Fields of an EKS Distro Release that show, and names of assets, by which images are found."""


def test_eks_distro_fields_show_or_do_nothing() -> None:
    known = clusters()
    before = shown(seen(known[DOCKER], bundles(), distro()))
    for path, value in OF_DISTRO.items():
        tree = with_version_of_etcd(written(DistroRelease, path, value=value))
        assert webhook(DistroRelease, tree) == []
        assert shown(seen(known[DOCKER], bundles(), tree)) != before, path
    odd = distro()
    for path in LEAVES[DistroRelease]:
        if path not in OF_DISTRO and leaf(path) not in ("name", "type", "channel"):
            put_everywhere(odd, path, {"number": 9}.get(leaf(path), ODD))
    assert refusals(DistroRelease, [odd]) == [[]]
    assert shown(seen(known[DOCKER], bundles(), odd)) == before


FACTS = {
    "date": Values(["2026-01-01T00:00:00Z"], ["", "yesterday", "2026-01-01"]),
    "version": Values(["v0.26.0"], ["", "0.26.0", "v0.26.1", "-1", f"v0.26.0-{'x' * 100}"]),
    "gitCommit": Values([ODD, MISSING], [""]),
    "bundleManifestUrl": Values([ODD, MISSING], [""]),
    "bundlesRef.apiVersion": Values(["", ODD, MISSING], []),
    "bundlesRef.name": Values(["gone", MISSING], [""]),
    "bundlesRef.namespace": Values(["", "team-a"], []),
}
"""Of an EKSARelease. Immutable, so that a wrong fact is refused if it can be known."""


def test_fact_of_a_release_is_taken_or_refused_by_name() -> None:
    for path, values in FACTS.items():
        accepted = [written(EKSARelease, f"spec.{path}", value=value) for value in values.accepted]
        assert refusals(EKSARelease, accepted) == [[]] * len(accepted)
        refused = [written(EKSARelease, f"spec.{path}", value=value) for value in values.refused]
        for value, causes in zip(values.refused, refusals(EKSARelease, refused), strict=True):
            assert fields(causes) & {f"spec.{path}", "metadata.name"}, f"{path} {value[:50]!r}: {causes}"


UNREADABLE: dict[type[KubeObject], tuple[Tree, str]] = {
    EKSARelease: ({"later": "format"}, "EksaVersionInvalid"),
    Bundles: ({"number": "seven"}, "BundleNotFoundForCluster"),
    DistroRelease: ({"channel": 36}, "EksdReleaseInvalid"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_unreadable_release_stops_only_its_clusters(kind: Any) -> None:
    """Managers of several builds share a CRD, and the newest one's is there."""
    spec, reason = UNREADABLE[kind]
    tree = EXAMPLES[kind]() | {"spec": spec}
    others = example(eksaVersion="v0.25.0")
    known = observer(*others, *others_of(tree), tree, with_releases=False)
    scope = known.scope(GARDEN)
    assert scope is not None
    assert problem(scope) is None
    assert scope.render_input is not None
    known.release_use.users(as_object(tree))  # a watch asks
    waiting = problem(seen(example(), tree))
    assert waiting is not None
    assert waiting.reason == reason
    name = f"{kind.resource.group_resource} {as_object(tree).key}"
    assert f"{name} exists, but this manager can't read it (" in waiting.message


def swept() -> Iterator[tuple[type[KubeObject], str, Values]]:
    for kind, paths in LEAVES.items():
        for path in paths:
            values = Values([ODD], [])
            if kind is EKSARelease:
                values = FACTS[path.removeprefix("spec.")]
            elif path.removesuffix(".uri") in IMAGES:
                values = IMAGE
            elif path.endswith(".imageDigest") and kind is Bundles:
                values = IMAGE_DIGEST
            elif path.endswith("image.uri"):
                values = IMAGES_OF_KUBERNETES
            elif path.endswith(".channel") and kind is DistroRelease:
                values = Values([], [ODD])
            yield (
                kind,
                path,
                Values(
                    values.accepted,
                    [*values.refused, *(type_ for type_ in WRONG_TYPES if is_of_wrong_type(kind, path, type_))],
                ),
            )


def test_how_many_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    accepted, refused = counted(capsys, "releases", KINDS, swept(), more=len(all_leaves(DistroRelease, "status")))
    assert accepted > 1000
    assert refused > 5000
