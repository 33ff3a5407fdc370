from __future__ import annotations

from typing import Any

from espalier.api.capi.cluster import CLUSTER_NAME_LABEL
from espalier.api.capi.machine import Machine
from espalier.api.core import SECRET
from espalier.api.eksa.vocabulary.group import MOVED_FROM_ANNOTATION, SYSTEM_NAMESPACE
from espalier.api.identity import ClusterIdentity
from espalier.api.resource import Key, Resource
from espalier.kube.objects import Object, encode_json
from espalier.moving import objects
from espalier.moving.objects import CAPI_CLUSTER, CLUSTER, Item

GARDEN = Key("default", "garden")
TENANT = Key("tenant", "garden")


def item(resource: Resource, key: Key, *owners: str, uid: str = "", **more: Any) -> Item:
    metadata = {
        "name": key.name,
        "namespace": key.namespace,
        "uid": uid or f"{resource.kind} {key}",
        "generation": 3,
        "resourceVersion": "7",
        "ownerReferences": [{"apiVersion": "v1", "kind": "Owner", "name": owner, "uid": owner} for owner in owners],
        "labels": more.pop("labels", {}),
        "annotations": {"a": "b"},
    }
    tree = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **more}
    return Item(resource, Object(encode_json(tree)), True)


def system(name: str) -> Key:
    return Key(SYSTEM_NAMESPACE, name)


def of_garden() -> list[Item]:
    labels = ClusterIdentity.of(GARDEN).labels
    return [
        item(SECRET, system("garden-ca"), uid="ca", labels={CLUSTER_NAME_LABEL: "garden"}),
        item(SECRET, system("garden-data"), "machine", uid="data"),
        item(Machine.resource, system("garden-1"), "made", uid="machine", labels={CLUSTER_NAME_LABEL: "garden"}),
        item(CAPI_CLUSTER, system("garden"), uid="made", labels=labels, spec={}),
        item(CLUSTER, GARDEN, uid="garden", spec={}),
        item(CLUSTER, TENANT, uid="tenant", spec={}),
        item(SECRET, system("other"), uid="other"),
    ]


def uids(value: list[Item]) -> list[str]:
    return [element.object.metadata.uid for element in value]


def test_owners_come_before_what_they_own() -> None:
    result = uids(objects.Index(of_garden()).members(GARDEN, []))
    assert sorted(result) == ["ca", "data", "garden", "machine", "made"]
    assert result[0] == "garden"
    assert result.index("made") < result.index("machine") < result.index("data")


def test_a_namesake_has_none_of_the_objects_of_another() -> None:
    assert uids(objects.Index(of_garden()).members(TENANT, [])) == ["tenant"]


def test_what_a_cluster_names_is_one_of_its_objects() -> None:
    result = objects.Index(of_garden()).members(TENANT, [("", "Secret", system("other"))])
    assert uids(result) == ["tenant", "other"]
    own = {element.object.metadata.uid: element for element in result}
    assert [objects.is_shared(element, own) for element in result] == [False, True]


def test_objects_that_own_each_other_are_one_level() -> None:
    circle = [item(SECRET, system(name), other, uid=name) for name, other in (("a", "b"), ("b", "a"))]
    assert [uids(level) for level in objects.levels(circle)] == [["a", "b"]]


def test_a_copy_has_owners_of_the_target_and_no_others() -> None:
    body = objects.copied(item(SECRET, GARDEN, "known", "unknown", status={}), {"known": "there"}, "here/1")
    assert [owner["uid"] for owner in body["metadata"]["ownerReferences"]] == ["there"]
    assert body["metadata"].keys() == {"name", "namespace", "labels", "annotations", "ownerReferences"}
    assert body["metadata"]["annotations"] == {"a": "b", MOVED_FROM_ANNOTATION: "here/1"}
    assert "status" not in body


def test_a_copied_cluster_of_cluster_api_is_paused() -> None:
    made = item(CAPI_CLUSTER, system("garden"), spec={"paused": False})
    body = objects.copied(made, {}, "here/1")
    assert body["spec"] == {"paused": True}
    assert objects.differences(made, Object(encode_json(body)), {}) == []


def test_what_was_observed_stays_observed() -> None:
    conditions = [{"type": "Ready", "observedGeneration": 3}, {"type": "Synced", "observedGeneration": 2}]
    machine = item(Machine.resource, system("one"), status={"observedGeneration": 3, "conditions": conditions})
    status = objects.status_there(machine, 1)
    assert status is not None
    assert status["status"]["observedGeneration"] == 1
    assert [condition["observedGeneration"] for condition in status["status"]["conditions"]] == [1, 0]


def test_differences_are_what_the_target_lacks() -> None:
    here = item(SECRET, GARDEN, data={"a": "1", "b": ["x"]})
    more = item(SECRET, GARDEN, data={"a": "2", "b": ["x"], "c": "default"})
    assert objects.differences(here, more.object, {}) == ["data.a"]


def test_owned_fields_are_compared_without_times() -> None:
    ours = {"manager": "a", "operation": "Apply", "fieldsV1": {"f:spec": {}}, "time": "2026-01-01T00:00:00Z"}
    theirs = {"manager": "b", "operation": "Update", "fieldsV1": {"f:data": {}}}
    later = ours | {"time": "2026-01-02T00:00:00Z"}
    assert objects.owned([ours, theirs]) == objects.owned([theirs, later])
    assert objects.owned([ours]) != objects.owned([ours, theirs])
    assert objects.owned([ours]) != objects.owned([ours | {"fieldsV1": {"f:data": {}}}])


def test_a_cluster_of_ours_is_part_of_no_other() -> None:
    """Whatever label somebody gave it."""
    labelled = item(CLUSTER, system("orchard"), "made", uid="orchard", labels={CLUSTER_NAME_LABEL: "garden"}, spec={})
    assert "orchard" not in uids(objects.Index([*of_garden(), labelled]).members(GARDEN, []))
