"""Which layers a cluster has: those up to its own release, whatever the manager's release is."""

from __future__ import annotations

import msgspec
import pytest
import semver
from msgspec.structs import replace

from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.meta import Tree
from espalier.clusters.design import names
from espalier.clusters.design.drift.gate import Isolation
from espalier.clusters.design.layers import LAYERS, Layer, offered, release
from espalier.clusters.design.layers.pieces import changed
from espalier.clusters.design.rendered import Rendered
from espalier.clusters.observe.observe import ClusterObserver
from espalier.clusters.observe.scope import read
from espalier.kube.client import Client
from espalier.providers.registry import PROVIDERS
from espalier.releases import Uninstalled
from espalier.runtime.caches.cache import Caches
from espalier.runtime.caches.snapshot import Snapshot
from tests.support.objects.observed_clusters import GARDEN, RELEASES, NoServer, as_object, datacenter, example, observer
from tests.support.objects.render_inputs import RELEASED, render_input, text


def louder(rendered: Rendered) -> Rendered:
    control_plane = rendered.control_plane
    spec = changed(control_plane.spec, replicas=7)
    return replace(rendered, control_plane=changed(control_plane, spec=spec))


LATER = Layer("louder", semver.Version(0, 27, 0), "More of everything.", functions=(louder,))


def layer_names(version: str, patches: str = "") -> list[str]:
    return [layer.name for layer in render_input("docker", version=version, patches=patches).layers]


@pytest.mark.demand("I32")
def test_cluster_has_layers_up_to_its_own_release() -> None:
    assert layer_names("v0.24.2") == ["base"]
    assert layer_names("v0.25.0") == ["base", "tls-min-version"]
    assert layer_names("v0.25.1") == ["base", "tls-min-version", "cni-updates"]
    assert layer_names("v0.26.0") == [layer.name for layer in LAYERS]


@pytest.mark.demand("I5", "I32")
@pytest.mark.parametrize("version", RELEASED)
@pytest.mark.parametrize("case", ["docker", "everything", "cilium"])
def test_later_manager_renders_the_same_bytes(case: str, version: str) -> None:
    assert text(case, version=version, layers=[*LAYERS, LATER]) == text(case, version=version)


def test_later_managers_own_release_has_what_it_brings() -> None:
    newest = render_input("docker", layers=[*LAYERS, replace(LATER, since=semver.Version(0, 26, 0))])
    assert newest.layers[-1].name == "louder"


@pytest.mark.parametrize(
    ("eksa_version", "expected"),
    [
        ("v0.26.0", "0.26.0"),
        ("v0.27.0-dev+build.7", "0.27.0"),
        ("v0.26.3+build.2", "0.26.3"),
        ("latest", None),
        ("", None),
        (None, None),
    ],
)
def test_the_release_of_an_eksa_version(eksa_version: str | None, expected: str | None) -> None:
    result = release(eksa_version)
    assert (str(result) if result else None) == expected


def reference(name: str) -> Tree:
    return {"apiVersion": "anywhere.eks.amazonaws.com/v1alpha1", "name": name, "namespace": "eksa-system"}


@pytest.mark.parametrize(("version", "first"), [("v0.25.1", "v0.25.0"), ("v0.26.0", "v0.26.0"), ("v0.24.2", "v0.24.2")])
def test_cluster_with_bundles_has_their_first_release(version: str, first: str) -> None:
    """Several releases may share Bundles; a later one that does so too changes nothing for it."""
    bundles = RELEASES.release(version).bundles.metadata.name
    old = example(eksaVersion=None, bundlesRef=reference(bundles))
    scope = observer(*old).scope(GARDEN)
    assert scope is not None
    assert scope.render_input is not None
    assert [layer.name for layer in scope.render_input.layers] == layer_names(first)


def test_missing_release_gives_nobody_other_layers() -> None:
    """Those of v0.25.0, of which nothing but the EKSARelease is missing; v0.25.1 has the same Bundles."""
    missing = RELEASES.release("v0.25.0")
    uninstalled, snapshot = Uninstalled(), Snapshot()
    made = ClusterObserver(snapshot, providers=PROVIDERS, uninstalled=uninstalled)
    snapshot.fill(
        as_object(msgspec.to_builtins(object_)) for object_ in RELEASES.objects() if object_ != missing.eksa_release
    )
    cluster = read(as_object(example(eksaVersion=None, bundlesRef=reference(missing.bundles.metadata.name))[0]))
    assert [layer.name for layer in made.layers_of(cluster)] == layer_names("v0.25.1")
    uninstalled.refused(missing.eksa_release, "somebody is against it")
    assert [layer.name for layer in made.layers_of(cluster)] == layer_names("v0.25.0")


def test_cluster_with_foreign_bundles_has_the_base() -> None:
    cluster = example(eksaVersion=None, bundlesRef=reference("mine"))[0]
    result = observer(cluster, datacenter()).layers_of(read(as_object(cluster)))
    assert [layer.name for layer in result] == ["base"]


@pytest.mark.parametrize("isolation", [Isolation.GATE, Isolation.OFF])
def test_clusters_without_layers_have_the_newest(isolation: Isolation) -> None:
    cluster = read(as_object(example(eksaVersion="v0.24.2")[0]))
    made = ClusterObserver(Caches(Client(NoServer())), providers=PROVIDERS, isolation=isolation)
    assert made.layers_of(cluster) == tuple(LAYERS)
    assert made.offered_to(cluster) == ()


def test_patch_is_offered_and_applied_by_consent() -> None:
    old = release("v0.24.2")
    assert [layer.name for layer in offered(LAYERS, old)] == ["short-lived-tokens"]
    assert offered(LAYERS, old, {"short-lived-tokens"}) == ()
    assert offered(LAYERS, release("v0.26.0")) == ()
    assert layer_names("v0.24.2", "short-lived-tokens") == ["base", "short-lived-tokens"]


def test_consent_is_to_known_patches_only() -> None:
    assert layer_names("v0.24.2", "tls-min-version, half-unhealthy,no-such-patch") == ["base"]


def test_consented_patch_changes_what_it_says_only() -> None:
    before, after = text("docker", version="v0.25.1"), text("docker", version="v0.25.1", patches="short-lived-tokens")
    added = [line for line in after.splitlines() if line not in before.splitlines()]
    assert [line.strip() for line in added] == [
        "- name: service-account-extend-token-expiration",
    ]


def test_consent_ignores_order_and_spaces() -> None:
    assert names.consents({metadata_keys.PATCHES_ANNOTATION: " b ,a,,"}) == {"a", "b"}
    assert names.consents({}) == frozenset()
