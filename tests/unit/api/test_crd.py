from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from espalier.api import capi, eksa
from espalier.api.definitions.crd import crd_of
from espalier.api.definitions.structural import Schema, schema_of
from espalier.api.eksa.cluster import Cluster
from espalier.api.kinds import KubeObject
from espalier.providers.kinds import CLUSTER_API_KINDS, EKSA_KINDS

KINDS = (*EKSA_KINDS, *CLUSTER_API_KINDS)
SHORT_NAMES_OF_CLUSTER_API = {"cl", "ma", "ms", "md", "mhc", "mhcs", "mp", "crs", "kcp", "ext"}


def nodes(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    for keyword in ("items", "additionalProperties"):
        if keyword in schema:
            yield from nodes(schema[keyword], f"{path}[]")


def root(cls: type[KubeObject]) -> Schema:
    version: dict[str, Any] = crd_of(cls)["spec"]["versions"][0]
    schema: Schema = version["schema"]["openAPIV3Schema"]
    return schema


@pytest.mark.demand(L55="by no schema, which would change what was asked for")
@pytest.mark.parametrize("cls", KINDS)
def test_no_schema_has_a_default_but_one(cls: type[KubeObject]) -> None:
    """A default is applied on read: it would change every stored object without raising its generation.

    But for the status of a Cluster that no manager has seen, which nobody has stored.
    """
    expected = {".status": {"observedGeneration": -1}} if cls is Cluster else {}
    assert {path: node["default"] for path, node in nodes(root(cls)) if "default" in node} == expected


@pytest.mark.parametrize("cls", KINDS)
def test_schemas_are_structural(cls: type[KubeObject]) -> None:
    for path, node in nodes(root(cls)):
        untyped = node.get("x-kubernetes-preserve-unknown-fields") or node.get("x-kubernetes-int-or-string")
        assert "type" in node or untyped, path
        assert not ("properties" in node and "additionalProperties" in node), path
        assert set(node.get("required", [])) <= set(node.get("properties", {})), path


@pytest.mark.parametrize("cls", KINDS)
def test_the_keys_of_list_maps_are_required(cls: type[KubeObject]) -> None:
    for path, node in nodes(root(cls)):
        if node.get("x-kubernetes-list-type") == "map":
            assert set(node["x-kubernetes-list-map-keys"]) <= set(node["items"]["required"]), path


@pytest.mark.parametrize("cls", EKSA_KINDS)
def test_lists_of_ours_say_how_they_are_merged(cls: type[KubeObject]) -> None:
    lists = {path: node for path, node in nodes(root(cls)) if node.get("type") == "array"}
    assert [path for path, node in lists.items() if "x-kubernetes-list-type" not in node] == []


BROUGHT_BY_RELEASES = {"Bundles", "EKSARelease", "Release", "Manifest"}


def is_unlimited(path: str, node: Schema) -> bool:
    if node.get("type") == "array":
        return "maxItems" not in node
    if node.get("type") == "string":  # text that stands alone is as short as an object has to be
        return "[]" in path and not {"maxLength", "enum", "format"} & set(node)
    is_open = "additionalProperties" in node or node.get("x-kubernetes-preserve-unknown-fields")
    return bool(is_open) and "maxProperties" not in node


@pytest.mark.parametrize("cls", [kind for kind in EKSA_KINDS if kind.resource.kind not in BROUGHT_BY_RELEASES])
def test_whatever_a_user_can_repeat_has_a_limit(cls: type[KubeObject]) -> None:
    """One tenant's list without end, or map, would keep the manager of all tenants busy."""
    spec = root(cls)["properties"].get("spec", {})
    assert [path for path, node in nodes(spec) if is_unlimited(path, node)] == []


@pytest.mark.parametrize("cls", EKSA_KINDS)
def test_every_field_of_ours_is_explained(cls: type[KubeObject]) -> None:
    silent = [
        f"{path}.{name}"
        for path, node in nodes(root(cls))
        for name, child in node.get("properties", {}).items()
        if "description" not in child and (path, name) != ("", "metadata") and name not in ("apiVersion", "kind")
    ]
    assert [path for path in silent if not path.startswith(".status.conditions[]")] == []


@pytest.mark.parametrize("cls", KINDS)
def test_columns_show_fields_that_there_are(cls: type[KubeObject]) -> None:
    known = {path.replace("[]", "") for path, _ in nodes(schema_of(cls))}
    for column in cls.declaration.columns:
        plain = re.sub(r"\[[^\]]*\]", "", column.json_path)
        assert plain in known, column


def test_short_names_do_not_collide() -> None:
    counts = Counter(name for cls in KINDS for name in cls.declaration.short_names)
    assert [name for name, count in counts.items() if count > 1] == []
    ours = {name for cls in EKSA_KINDS for name in cls.declaration.short_names}
    assert not ours & SHORT_NAMES_OF_CLUSTER_API


def test_the_cluster_crd_says_what_kubectl_shows() -> None:
    crd = crd_of(eksa.cluster.Cluster)
    assert crd["metadata"]["name"] == "clusters.anywhere.eks.amazonaws.com"
    assert crd["spec"]["scope"] == "Namespaced"
    assert crd["spec"]["names"]["shortNames"] == ["eksac"]
    (version,) = crd["spec"]["versions"]
    assert version["subresources"] == {"status": {}}
    shown = [column["name"] for column in version["additionalPrinterColumns"] if not column.get("priority")]
    assert shown == ["Version", "Control Plane", "Workers", "Ready", "Age"]


@pytest.mark.demand("V18")
def test_a_release_is_cluster_scoped_and_never_changes() -> None:
    crd = crd_of(eksa.release.EKSARelease)
    assert crd["spec"]["scope"] == "Cluster"
    rules = root(eksa.release.EKSARelease)["properties"]["spec"]["x-kubernetes-validations"]
    assert "self == oldSelf" in [rule["rule"] for rule in rules]


@pytest.mark.parametrize("cls", CLUSTER_API_KINDS)
def test_cluster_api_kinds_keep_unknown_fields(cls: type[KubeObject]) -> None:
    version = cls.resource.version
    early = ("Etcdadm", "Tinkerbell", "Nutanix", "CloudStack", "AWSSnow")
    contract = "v1beta1" if cls.resource.kind.startswith(early) else "v1beta2"
    assert version == ("v1beta3" if cls.resource.kind.startswith("CloudStack") else contract)
    assert crd_of(cls)["metadata"]["labels"] == {f"cluster.x-k8s.io/{contract}": version}
    closed = [
        path
        for path, node in nodes(root(cls))
        if "properties" in node and not node.get("x-kubernetes-preserve-unknown-fields")
    ]
    assert closed == []


@pytest.mark.parametrize(
    "cls", [capi.machine.MachineDeployment, capi.machine.MachineSet, capi.kubeadm.KubeadmControlPlane]
)
def test_kinds_with_replicas_can_be_scaled(cls: type[KubeObject]) -> None:
    assert crd_of(cls)["spec"]["versions"][0]["subresources"]["scale"] == {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }


def test_types_without_a_structural_schema_are_refused() -> None:
    class Odd(msgspec.Struct):
        value: int | list[int]

    with pytest.raises(TypeError, match="structural"):
        schema_of(Odd)


STAYING = {"Bundles", "EKSARelease", "Release"}
"""Objects that every management cluster has of its own."""


@pytest.mark.parametrize("cls", EKSA_KINDS)
def test_clusterctl_moves_our_kinds_but_releases(cls: type[KubeObject]) -> None:
    labels = crd_of(cls)["metadata"].get("labels", {})
    moves = {"clusterctl.cluster.x-k8s.io", "clusterctl.cluster.x-k8s.io/move"}
    assert moves <= labels.keys() or cls.resource.kind in STAYING
    assert not moves & labels.keys() or cls.resource.kind not in STAYING
