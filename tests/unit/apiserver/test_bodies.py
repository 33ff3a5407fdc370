"""Bodies that kube-apiserver gives, where a simpler server would give others.

`tests/contracts/test_ordinary_requests.py` compares many more with a real one.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from espalier.api import core
from espalier.apiserver.builtin.pod_status import qos_class
from espalier.apiserver.server import Server
from espalier.apiserver.wire import content
from espalier.kube.transports.wire import ADMIN, Request, Response

HEADERS = {"content-type": "application/json", "user-agent": "client/1"}
POD: dict[str, Any] = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "a", "image": "a:1"}]}}
DEFINITION: dict[str, Any] = {
    "metadata": {"name": "things.example.org"},
    "spec": {
        "group": "example.org",
        "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing", "shortNames": ["th"]},
        "versions": [
            {"name": name, "served": served, "storage": name == "v1", "schema": {"openAPIV3Schema": {"type": "object"}}}
            for name, served in (("v2", True), ("v1", True), ("v1beta1", False))
        ],
    },
}


async def ask(server: Server, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    encoded = b"" if body is None else json.dumps(body).encode()
    answer = await server.serve(Request(method, path, {}, HEADERS | headers, encoded), ADMIN)
    return answer.status, json.loads(answer.body)


async def created(server: Server, resource: Any, body: Any) -> Any:
    status, tree = await ask(server, "POST", resource.path("default" if resource.namespaced else None), body)
    assert status == 201, tree
    return tree


def owned(tree: Any) -> dict[str, Any]:
    return {entry["manager"]: entry["fieldsV1"] for entry in tree["metadata"]["managedFields"]}


async def test_items_of_built_in_lists_have_no_kind(server: Server) -> None:
    await created(server, core.CONFIG_MAP, {"metadata": {"name": "a"}, "data": {"b": "c"}})
    _, listed = await ask(server, "GET", "/api/v1/namespaces/default/configmaps")
    assert listed["kind"] == "ConfigMapList"
    assert [(item.keys(), item["data"]) for item in listed["items"]] == [({"metadata", "data"}, {"b": "c"})]
    _, deleted = await ask(server, "DELETE", "/api/v1/namespaces/default/configmaps")
    assert [item.keys() for item in deleted["items"]] == [{"metadata", "data"}]


async def test_items_of_custom_lists_have_their_kind(server: Server) -> None:
    await created(server, core.CUSTOM_RESOURCE_DEFINITION, DEFINITION)
    things = "/apis/example.org/v2/namespaces/default/things"
    await ask(server, "POST", things, {"apiVersion": "example.org/v2", "kind": "Thing", "metadata": {"name": "a"}})
    _, listed = await ask(server, "GET", things)
    assert listed["metadata"]["continue"] == ""
    assert [(item["apiVersion"], item["kind"]) for item in listed["items"]] == [("example.org/v2", "Thing")]


async def test_nobody_owns_structs_that_are_always_there(server: Server) -> None:
    pod = await created(server, core.POD, POD)
    spec = owned(pod)["client"]["f:spec"]
    assert "." not in spec
    assert "." not in spec["f:containers"]
    assert spec["f:containers"]['k:{"name":"a"}']["."] == {}


async def test_nobody_owns_what_the_server_assigns_to_pods(server: Server) -> None:
    pod = await created(server, core.POD, POD)
    assert owned(pod).keys() == {"client"}
    assert not {"f:status"} & owned(pod)["client"].keys()
    assert not {"f:priority", "f:tolerations", "f:serviceAccountName"} & owned(pod)["client"]["f:spec"].keys()
    assert pod["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert (pod["spec"]["priority"], pod["spec"]["serviceAccountName"]) == (0, "default")
    assert [part["tolerationSeconds"] for part in pod["spec"]["tolerations"]] == [300, 300]


async def test_pods_keep_tolerations_of_their_own(server: Server) -> None:
    own = {"operator": "Exists"}
    spec = {**POD["spec"], "tolerations": [own], "priorityClassName": "high", "serviceAccountName": "robot"}
    pod = await created(server, core.POD, {**POD, "spec": spec})
    assert pod["spec"]["tolerations"] == [own]
    assert "priority" not in pod["spec"]
    assert (pod["spec"]["serviceAccountName"], pod["spec"]["serviceAccount"]) == ("robot", "robot")


async def test_a_headless_service_keeps_its_address_families(server: Server) -> None:
    ports = [{"port": 80}]
    body = {"metadata": {"name": "a"}, "spec": {"clusterIP": "None", "selector": {"a": "b"}, "ports": ports}}
    service = await created(server, core.SERVICE, body)
    assert service["spec"]["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    assert (service["spec"]["ipFamilies"], service["spec"]["ipFamilyPolicy"]) == (["IPv4"], "SingleStack")
    assert service["status"] == {"loadBalancer": {}}
    body["spec"] = {"clusterIP": "None", "ports": ports}
    _, changed = await ask(server, "PUT", core.SERVICE.path("default", "a"), body)
    assert (changed["spec"]["ipFamilies"], changed["spec"]["ipFamilyPolicy"]) == (["IPv4"], "SingleStack")


async def test_a_controller_revision_needs_data(server: Server) -> None:
    body: dict[str, Any] = {"metadata": {"name": "a"}, "data": {"a": 1}}
    revision = await created(server, core.CONTROLLER_REVISION, body)
    assert (revision["revision"], owned(revision)) == (0, {"client": {"f:data": {}}})
    path = core.CONTROLLER_REVISION.path("default")
    status, refused = await ask(server, "POST", path, {"metadata": {"name": "b"}, "revision": 1})
    assert (status, refused["details"]["causes"][0]["field"]) == (422, "data")
    status, refused = await ask(server, "PUT", f"{path}/a", {**body, "data": {"a": 2}})
    assert (status, refused["details"]["causes"][0]["field"]) == (422, "data")


async def test_the_server_owns_the_status_of_definitions(server: Server) -> None:
    definition = await created(server, core.CUSTOM_RESOURCE_DEFINITION, DEFINITION)
    assert owned(definition)["kube-apiserver"].keys() == {"f:status"}
    assert "f:status" not in owned(definition)["client"]
    path = core.CUSTOM_RESOURCE_DEFINITION.path(None, "things.example.org")
    _, same = await ask(server, "PUT", path, definition)
    assert same["metadata"]["resourceVersion"] == definition["metadata"]["resourceVersion"]


@pytest.mark.parametrize(("version", "cells"), [("v1.36.3", 2), ("v1.37.2", 8)])
async def test_definitions_have_more_columns_from_1_37(server: Server, version: str, cells: int) -> None:
    server.version = version
    await created(server, core.CUSTOM_RESOURCE_DEFINITION, DEFINITION)
    path = core.CUSTOM_RESOURCE_DEFINITION.path(None, "things.example.org")
    _, table = await ask(server, "GET", path, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    (row,) = table["rows"]
    assert len(row["cells"]) == len(table["columnDefinitions"]) == cells
    if cells == 8:
        assert row["cells"][1:3] == ["Namespaced", "v1(storage),v2"]
        assert row["cells"][4:] == ["example.org", "Thing", "th", True]


async def test_a_csinode_has_a_status_from_1_37(server: Server) -> None:
    async def names() -> set[str]:
        _, listed = await ask(server, "GET", "/apis/storage.k8s.io/v1")
        return {resource["name"] for resource in listed["resources"]}

    assert "csinodes/status" not in await names()
    server.version = "v1.37.2"
    assert "csinodes/status" in await names()


async def test_discovery_gives_the_address_that_was_asked(server: Server) -> None:
    _, versions = await ask(server, "GET", "/api", host="example.org:6443")
    assert versions["serverAddressByClientCIDRs"] == [{"clientCIDR": "0.0.0.0/0", "serverAddress": "example.org:6443"}]


async def test_groups_come_in_kube_apiservers_order(server: Server) -> None:
    await created(server, core.CUSTOM_RESOURCE_DEFINITION, DEFINITION)
    _, groups = await ask(server, "GET", "/apis")
    names = [group["name"] for group in groups["groups"]]
    assert (names[0], names[1], names[-1]) == ("apps", "events.k8s.io", "example.org")


@pytest.mark.parametrize(
    ("accept", "expected"),
    [("application/yaml", True), ("application/json, application/yaml", False), ("text/html, application/yaml", True)],
)
def test_yaml_is_sent_to_who_prefers_it(accept: str, expected: bool) -> None:
    assert content.wants_yaml(accept) is expected


def test_a_body_is_the_same_in_yaml() -> None:
    tree = {"a": "1", "b": [{"c": None}], "d": {"e": "ä: b"}, "f": "2026-01-01T00:00:00Z"}
    answer = content.in_yaml(Response(200, json.dumps(tree).encode(), {"content-type": content.JSON}))
    assert answer.headers["content-type"] == content.YAML
    assert yaml.safe_load(answer.body) == tree
    text = Response(200, b"ok", {"content-type": "text/plain"})
    assert content.in_yaml(text) is text


def test_a_watch_is_refused_in_yaml() -> None:
    content.acceptable("application/yaml")
    with pytest.raises(content.NotAcceptable, match=r"application/json$"):
        content.acceptable("application/yaml", stream=True)


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ([{}], "BestEffort"),
        ([{"requests": {"cpu": "1"}}], "Burstable"),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}}], "Guaranteed"),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}}, {}], "Burstable"),
        ([{"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}], "Burstable"),
    ],
)
def test_the_quality_of_service_follows_from_resources(resources: list[Any], expected: str) -> None:
    containers = [{"name": f"c{index}", "resources": part} for index, part in enumerate(resources)]
    assert qos_class({"spec": {"containers": containers}}) == expected


async def test_stored_versions_of_a_definition_are_written(server: Server) -> None:
    await created(server, core.CUSTOM_RESOURCE_DEFINITION, DEFINITION)
    path = core.CUSTOM_RESOURCE_DEFINITION.path(None, "things.example.org")
    _, definition = await ask(server, "GET", path)
    assert definition["status"]["storedVersions"] == ["v1"]
    definition["status"]["storedVersions"] = ["v2", "v1"]
    _, reported = await ask(server, "PUT", f"{path}/status", definition)
    assert reported["status"]["storedVersions"] == ["v2", "v1"]
