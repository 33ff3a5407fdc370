"""Discovery: what is served, in the old and the aggregated form."""

from __future__ import annotations

import json
from typing import Any

import pytest

from espalier.api.resource import Resource
from espalier.apiserver.documents.discovery import Discovery, aggregated_version, version_rank
from espalier.apiserver.schema.registry import Registry, ServedKind
from espalier.kube.transports.wire import Request, Response

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
Tree = dict[str, Any]


def served(group: str, version: str, plural: str, kind: str, **more: Any) -> ServedKind:
    resource = Resource(group, version, plural, kind, more.pop("namespaced", True))
    return ServedKind(
        resource=resource,
        singular=kind.lower(),
        list_kind=f"{kind}List",
        table=resource.group_resource,
        storage_version=resource.api_version,
        **more,
    )


DEPLOYMENTS = served(
    "apps", "v1", "deployments", "Deployment",
    short_names=("deploy",), categories=("all",), subresources=("status", "scale"),
)  # fmt: skip
THINGS = [
    served("example.org", version, "things", "Thing", namespaced=False, custom=True) for version in ("v1beta1", "v1")
]


@pytest.fixture
def registry() -> Registry:
    return Registry([served("", "v1", "pods", "Pod", verbs=("get", "list")), DEPLOYMENTS])


@pytest.fixture
def discovery(registry: Registry) -> Discovery:
    return Discovery(registry, "v1.36.3")


def ask(discovery: Discovery, path: str, **headers: str) -> Response:
    answer = discovery.respond(Request("GET", path, headers={k.replace("_", "-"): v for k, v in headers.items()}))
    assert answer is not None
    return answer


def tree(response: Response) -> Tree:
    assert response.status == 200
    return json.loads(response.body)  # type: ignore[no-any-return]


def test_the_version_document_has_major_and_minor(discovery: Discovery) -> None:
    version = tree(ask(discovery, "/version"))
    assert (version["major"], version["minor"], version["gitVersion"]) == ("1", "36", "v1.36.3")


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/readyz/ping"])
def test_a_server_that_answers_is_healthy(discovery: Discovery, path: str) -> None:
    assert ask(discovery, path).body == b"ok"
    verbose = discovery.respond(Request("GET", path, {"verbose": ""}))
    assert verbose is not None
    assert verbose.body.startswith(b"[+]ping ok\n")


def test_groups_and_versions_in_the_old_form(discovery: Discovery) -> None:
    assert tree(ask(discovery, "/api"))["versions"] == ["v1"]
    (group,) = tree(ask(discovery, "/apis"))["groups"]
    assert group["name"] == "apps"
    assert group["preferredVersion"] == {"groupVersion": "apps/v1", "version": "v1"}
    assert tree(ask(discovery, "/apis/apps"))["kind"] == "APIGroup"
    assert "/apis/apps/v1" in tree(ask(discovery, "/"))["paths"]


def test_resources_in_the_old_form(discovery: Discovery) -> None:
    deployments, scale, status = tree(ask(discovery, "/apis/apps/v1"))["resources"]
    assert deployments == {
        "name": "deployments",
        "singularName": "deployment",
        "namespaced": True,
        "kind": "Deployment",
        "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        "shortNames": ["deploy"],
        "categories": ["all"],
        "storageVersionHash": "8aSe+NMegvE=",
    }
    assert (scale["name"], scale["group"], scale["version"], scale["kind"]) == (
        "deployments/scale",
        "autoscaling",
        "v1",
        "Scale",
    )
    assert (status["name"], status["kind"]) == ("deployments/status", "Deployment")
    assert tree(ask(discovery, "/api/v1"))["resources"][0]["verbs"] == ["get", "list"]


def test_everything_at_once_in_the_aggregated_form(discovery: Discovery) -> None:
    answer = ask(discovery, "/apis", accept=AGGREGATED)
    assert answer.headers["content-type"] == "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    document = tree(answer)
    assert (document["kind"], document["apiVersion"]) == ("APIGroupDiscoveryList", "apidiscovery.k8s.io/v2")
    (group,) = document["items"]
    (version,) = group["versions"]
    (resource,) = version["resources"]
    assert (resource["resource"], resource["scope"], resource["shortNames"]) == (
        "deployments",
        "Namespaced",
        ["deploy"],
    )
    assert [subresource["subresource"] for subresource in resource["subresources"]] == ["scale", "status"]
    assert resource["subresources"][0]["responseKind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    (core,) = tree(ask(discovery, "/api", accept=AGGREGATED))["items"]
    assert core["versions"][0]["resources"][0]["resource"] == "pods"


def test_known_aggregated_document_is_not_sent_again(discovery: Discovery, registry: Registry) -> None:
    etag = ask(discovery, "/apis", accept=AGGREGATED).headers["etag"]
    again = ask(discovery, "/apis", accept=AGGREGATED, if_none_match=etag)
    assert (again.status, again.body) == (304, b"")
    registry.define("things.example.org", THINGS)
    assert ask(discovery, "/apis", accept=AGGREGATED, if_none_match=etag).status == 200


def test_custom_kinds_come_and_go_best_version_first(discovery: Discovery, registry: Registry) -> None:
    assert ask(discovery, "/apis/example.org/v1").status == 404
    registry.define("things.example.org", THINGS)
    group = tree(ask(discovery, "/apis/example.org"))
    assert [version["version"] for version in group["versions"]] == ["v1", "v1beta1"]
    assert group["preferredVersion"]["version"] == "v1"
    (resource,) = tree(ask(discovery, "/apis/example.org/v1beta1"))["resources"]
    assert not resource["namespaced"]
    registry.forget("things.example.org")
    assert ask(discovery, "/apis/example.org").status == 404
    assert ask(discovery, "/apis/example.org/v1").status == 404


@pytest.mark.parametrize("path", ["/api/v1/pods", "/apis/apps/v1/deployments", "/openapi/v3", "/elsewhere"])
def test_other_paths_are_not_its_business(discovery: Discovery, path: str) -> None:
    assert discovery.respond(Request("GET", path)) is None


@pytest.mark.parametrize(
    ("accept", "version"),
    [
        ("", None),
        ("application/json", None),
        ("application/json," + AGGREGATED, None),
        (AGGREGATED, "v2"),
        ("application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList", "v2beta1"),
        ("application/json;g=apidiscovery.k8s.io;v=v9;as=APIGroupDiscoveryList," + AGGREGATED, "v2"),
        ("application/vnd.kubernetes.protobuf;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io", None),
    ],
)
def test_the_form_that_a_client_prefers(accept: str, version: str | None) -> None:
    assert aggregated_version(accept) == version


def test_versions_sort_by_trust() -> None:
    versions = ["foo1", "v1", "v1alpha1", "v10", "v2", "v1beta2", "v2beta1", "v1beta10"]
    best_first = ["v10", "v2", "v1", "v2beta1", "v1beta10", "v1beta2", "v1alpha1", "foo1"]
    assert sorted(versions, key=version_rank) == best_first
