"""Machines with Bottlerocket: what can't be said of them is refused by name, and passwords reach none unasked."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.meta import Tree
from espalier.clusters.design.render.layered import rendered
from espalier.clusters.design.rendered import Rendered
from espalier.clusters.design.secrets.credentials import NAMESPACES, SERVERS
from espalier.clusters.observe.scope import Scope
from espalier.clusters.report.validity import missing_objects, problem
from tests.support.objects.observed_clusters import observer
from tests.support.objects.rendered_manifests import FORK, objects
from tests.support.providers import snow, vsphere
from tests.support.providers.bottlerocket import on_bottlerocket
from tests.support.providers.examples import stored
from tests.support.providers.vsphere import made, seen

PLANE, GROUP = "controlPlaneConfiguration", "workerNodeGroupConfigurations"
MIRROR = {"endpoint": "mirror.example.com", "port": "5000"}


def asked(**spec: Any) -> list[Tree]:
    """The example with Bottlerocket; `spec` adds to fields of the Cluster's spec."""
    trees = vsphere.with_bottlerocket()
    for field, value in spec.items():
        part = trees[0]["spec"].setdefault(field, {})
        (part[0] if isinstance(part, list) else part).update(value)
    return trees


def with_password(trees: list[Tree], **annotations: str) -> Scope:
    """The scope beside the Secret for mirrors that ask for a password."""
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "registry-credentials", "namespace": "eksa-system", "annotations": annotations},
        "data": {name: base64.b64encode(name.encode()).decode() for name in ("username", "password")},
    }
    scope = observer(*stored(trees), vsphere.credentials(), secret, FORK).scope(vsphere.KEY)
    assert scope is not None
    return scope


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "the control plane in place": (
        {PLANE: {"upgradeRolloutStrategy": {"type": "InPlace"}}},
        "spec.controlPlaneConfiguration.upgradeRolloutStrategy.type: Bottlerocket is not upgraded in place, "
        "because its image is immutable; found InPlace; allowed: RollingUpdate",
    ),
    "workers in place": (
        {GROUP: {"upgradeRolloutStrategy": {"type": "InPlace"}}},
        "spec.workerNodeGroupConfigurations[0].upgradeRolloutStrategy.type: Bottlerocket is not upgraded in place",
    ),
    "a setting that kubelets lack": (
        {PLANE: {"kubeletConfiguration": {"maxPods": 50, "serializeImagePulls": False, "failSwapOn": False}}},
        "spec.controlPlaneConfiguration.kubeletConfiguration: Bottlerocket has no such settings of the kubelet; remove "
        "them; found failSwapOn, serializeImagePulls",
    ),
    "the same for workers": (
        {GROUP: {"kubeletConfiguration": {"resolvConf": "/a"}}},
        "spec.workerNodeGroupConfigurations[0].kubeletConfiguration: Bottlerocket has no such settings",
    ),
    "a resolv.conf": (
        {"clusterNetwork": {"dns": {"resolvConf": {"path": "/etc/resolv.conf"}}}},
        "spec.clusterNetwork.dns.resolvConf.path: Bottlerocket has no such setting of the kubelet",
    ),
    "a mirror that nobody verifies": (
        {"registryMirrorConfiguration": MIRROR | {"insecureSkipVerify": True}},
        "spec.registryMirrorConfiguration.insecureSkipVerify: machines with Bottlerocket always verify the mirror",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_fields_unknown_to_bottlerocket_are_refused(name: str) -> None:
    fields, sentence = REFUSED[name]
    stopped = problem(seen(asked(**fields)))
    assert stopped is not None
    assert stopped.reason == "ClusterInvalid"
    assert sentence in stopped.message
    of_ubuntu = vsphere.manifest()
    for field, value in fields.items():
        part = of_ubuntu[0]["spec"].setdefault(field, {})
        (part[0] if isinstance(part, list) else part).update(value)
    assert problem(seen(of_ubuntu)) is None, "other machines can be told"


def test_invalid_certificates_are_refused_unquoted() -> None:
    data = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
    trees = on_bottlerocket(asked(), hostOSConfiguration={"certBundles": [{"name": "company", "data": data}]})
    stopped = problem(seen(trees))
    assert stopped is not None
    assert (
        "VSphereMachineConfig vineyard: spec.hostOSConfiguration.certBundles[0].data: machines trust" in stopped.message
    )
    assert "MIIB" not in stopped.message


MANIFESTS: dict[str, Callable[[], list[Tree]]] = {"vsphere": asked, "snow": snow.with_bottlerocket}
SECRETS: dict[str, Callable[..., Tree]] = {"vsphere": vsphere.credentials, "snow": snow.credentials}
KEYS = {"vsphere": vsphere.KEY, "snow": snow.KEY}


@pytest.mark.parametrize("name", MANIFESTS)
def test_stock_cluster_api_is_refused_by_name(name: str) -> None:
    scope = observer(*stored(MANIFESTS[name]()), SECRETS[name]()).scope(KEYS[name])
    assert scope is not None
    stopped = problem(scope)
    assert stopped is not None
    assert stopped.reason == "RequiresEKSAnywhereClusterAPI"
    assert stopped.message.startswith(
        "spec.controlPlaneConfiguration.machineGroupRef, spec.workerNodeGroupConfigurations[0].machineGroupRef: "
        "RequiresEKSAnywhereClusterAPI: machines with Bottlerocket need EKS Anywhere's build of Cluster API"
    )


def test_stock_cluster_api_makes_other_machines() -> None:
    scope = observer(*stored(vsphere.manifest()), vsphere.credentials()).scope(vsphere.KEY)
    assert scope is not None
    assert problem(scope) is None


PARTS = {
    "bottlerocketHostContainers": "bottlerocketHostContainers.kubeadmBootstrap",
    "bottlerocketBootstrapContainers": "bottlerocketBootstrapContainers.multiNetworkBootstrap",
}


@pytest.mark.parametrize("part", PARTS)
def test_release_without_bottlerocket_is_refused(part: str) -> None:
    trees = asked()
    vsphere.of(trees, "VSphereMachineConfig")["networks"] = ["Rows", "Barn"]
    stopped = problem(without(seen(trees), part))
    assert stopped is not None
    assert stopped.reason == "EksaVersionInvalid"
    assert f"no images for machines with Bottlerocket ({PARTS[part]})" in stopped.message
    assert problem(without(seen(vsphere.manifest()), part)) is None, "others need none"


def test_devices_of_snow_need_images_of_their_own() -> None:
    stopped = problem(without(snow.seen(snow.with_bottlerocket()), "bottlerocketHostContainers"))
    assert stopped is not None
    assert "kubeadmBootstrap, bottlerocketHostContainers.admin and control)" in stopped.message


def without(scope: Scope, part: str) -> Scope:
    """The same with a release that lacks a part."""
    assert scope.render_input is not None
    components = {
        version: msgspec.structs.replace(item, bundle=msgspec.structs.replace(item.bundle, **{_field(part): None}))
        for version, item in scope.render_input.components.items()
    }
    return msgspec.structs.replace(
        scope, render_input=msgspec.structs.replace(scope.render_input, components=components)
    )


def _field(name: str) -> str:
    return "".join(f"_{item.lower()}" if item.isupper() else item for item in name)


def test_mirror_password_reaches_permitted_mirrors() -> None:
    """EKS Anywhere's build gives it to machines that have a mirror, asked or not."""
    trees = asked(registryMirrorConfiguration=MIRROR)
    assert seen(trees).missing == ()
    waits = missing_objects(with_password(trees).missing)
    assert waits is not None
    assert waits.reason == "CredentialsNotPermitted"
    assert "spec.registryMirrorConfiguration: waiting for Secret eksa-system/registry-credentials" in waits.message
    assert with_password(trees, **{SERVERS: "mirror.example.com:5000", NAMESPACES: "*"}).missing == ()
    of_ubuntu = vsphere.manifest(registryMirrorConfiguration=MIRROR)
    assert with_password(of_ubuntu).missing == (), "other machines are not given it"


def test_files_with_passwords_are_for_their_readers() -> None:
    permitted = {SERVERS: "mirror.example.com:5000", NAMESPACES: "*"}

    def names(trees: list[Tree]) -> list[str]:
        render_input = with_password(trees, **permitted).render_input
        assert render_input is not None
        return [
            extra.metadata.name
            for extra in rendered(render_input).extras
            if extra.metadata.name.endswith("-node-files")
        ]

    trees = asked(registryMirrorConfiguration=MIRROR | {"authenticate": True})
    assert names(trees) == []
    workers = vsphere.of(trees, "VSphereMachineConfig")
    workers["osFamily"] = "ubuntu"
    assert names(trees) == ["vineyard-node-files"]


def control_plane(value: Rendered) -> KubeadmControlPlane:
    return value.control_plane


@pytest.mark.parametrize(
    ("namespaces", "expected"),
    [
        ({}, {"endpoint": "mirror.example.com:5000"}),
        ({"public.ecr.aws": "eks"}, {"endpoint": "mirror.example.com:5000/v2/eks"}),
        (
            {"quay.io": "quay"},
            {"mirrors": [{"registry": "quay.io", "endpoints": ["mirror.example.com:5000/v2/quay"]}]},
        ),
    ],
)
def test_mirror_stands_in_for_its_given_registries(namespaces: dict[str, str], expected: Tree) -> None:
    given = [{"registry": registry, "namespace": name} for registry, name in namespaces.items()]
    result = made(asked(registryMirrorConfiguration=MIRROR | {"ociNamespaces": given}))
    config = control_plane(result).spec.kubeadm_config_spec
    for item in (config.cluster_configuration, config.join_configuration):
        assert item is not None
        assert msgspec.to_builtins(item.registry_mirror) == expected


def test_workers_alone_may_have_bottlerocket() -> None:
    trees = vsphere.manifest()
    vsphere.of(trees, "VSphereMachineConfig").update(osFamily="", users=vsphere.EC2_USER)
    result = made(trees)
    assert control_plane(result).spec.kubeadm_config_spec.format == ""
    config = result.groups[0].config_template.spec.template.spec
    assert (config.format, config.files, config.pre_kubeadm_commands) == ("bottlerocket", [], [])
    assert config.join_configuration is not None
    assert config.join_configuration.bottlerocket is None, "nothing was asked for"


def test_bottlerocket_machine_has_no_unread_settings() -> None:
    for trees, of in (
        (vsphere.everything_with_bottlerocket(), made),
        (snow.everything_with_bottlerocket(), snow.made),
    ):
        text = str([object_ for object_ in objects(of(trees)) if object_["kind"].startswith("Kubeadm")])
        assert "KubeadmCommands" not in text
        assert "/etc/containerd" not in text, "neither its configuration nor certificates"
        config = control_plane(of(trees)).spec.kubeadm_config_spec
        assert config.join_configuration is not None
        node = config.join_configuration.node_registration
        assert node is not None
        assert {arg.name for arg in node.kubelet_extra_args} <= {"cloud-provider", "node-labels", "provider-id"}


def test_a_secret_not_permitted_tells_its_fields() -> None:
    """All lacking fields are in one message; the content of a Secret that is not permitted is not read."""
    waits = missing_objects(with_password(asked(registryMirrorConfiguration=MIRROR)).missing)
    assert waits is not None
    assert "registry-credentials, which must exist, with fields username and password, and permit" in waits.message
