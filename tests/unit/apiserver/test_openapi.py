"""OpenAPI documents, as far as kubectl looks into them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from espalier.api.resource import Resource
from espalier.apiserver.builtin import builtin
from espalier.apiserver.documents.openapi import OpenApi
from espalier.apiserver.schema.registry import Registry, ServedKind
from espalier.kube.transports.wire import Request, Response

Tree = dict[str, Any]
SCHEMA: Tree = {
    "type": "object",
    "description": "A thing.",
    "properties": {
        "spec": {"type": "object", "properties": {"size": {"type": "integer", "description": "How large."}}}
    },
}
THING = ServedKind(
    resource=Resource("things.example.org", "v1", "things", "Thing"),
    singular="thing",
    list_kind="ThingList",
    table="things.things.example.org",
    storage_version="things.example.org/v1",
    custom=True,
    make_schema=lambda: SCHEMA,
)
GVK = "x-kubernetes-group-version-kind"


@pytest.fixture
def registry() -> Registry:
    registry = Registry(builtin.KINDS)
    registry.define("things.things.example.org", [THING])
    return registry


@pytest.fixture
def openapi(registry: Registry) -> OpenApi:
    return OpenApi(registry, "v1.36.3")


def ask(openapi: OpenApi, path: str, **headers: str) -> Response:
    path, _, query = path.partition("?")
    pairs = dict(pair.split("=") for pair in query.split("&")) if query else {}
    answer = openapi.respond(Request("GET", path, pairs, {k.replace("_", "-"): v for k, v in headers.items()}))
    assert answer is not None
    return answer


def tree(response: Response) -> Tree:
    assert response.status == 200
    return json.loads(response.body)  # type: ignore[no-any-return]


def test_index_names_a_document_per_group_and_version(openapi: OpenApi) -> None:
    paths = tree(ask(openapi, "/openapi/v3"))["paths"]
    assert {"api/v1", "apis/apps/v1", "apis/things.example.org/v1"} <= paths.keys()
    for path in paths.values():
        answer = ask(openapi, path["serverRelativeURL"])
        assert tree(answer)["openapi"] == "3.0.0"
        assert answer.headers["cache-control"] == "public, immutable"


def test_address_of_a_document_follows_its_content(openapi: OpenApi, registry: Registry) -> None:
    before = tree(ask(openapi, "/openapi/v3"))["paths"]
    registry.define("things.things.example.org", [THING])
    assert tree(ask(openapi, "/openapi/v3"))["paths"] == before
    registry.forget("things.things.example.org")
    after = tree(ask(openapi, "/openapi/v3"))["paths"]
    assert before.keys() - after.keys() == {"apis/things.example.org/v1"}
    assert after.items() <= before.items()
    assert ask(openapi, "/openapi/v3/apis/things.example.org/v1").status == 404


def test_a_custom_kind_is_explained(openapi: OpenApi) -> None:
    """The steps of `kubectl explain`: from the path to the kind, from the kind to the schema, from field to field."""
    document = tree(ask(openapi, "/openapi/v3/apis/things.example.org/v1"))
    gvk = document["paths"]["/apis/things.example.org/v1/namespaces/{namespace}/things"]["get"][GVK]
    (schema,) = (schema_ for schema_ in document["components"]["schemas"].values() if gvk in schema_.get(GVK, ()))
    assert schema["description"] == "A thing."
    assert schema["properties"]["spec"]["properties"]["size"]["description"] == "How large."
    (reference,) = schema["properties"]["metadata"]["allOf"]
    metadata = document["components"]["schemas"][reference["$ref"].removeprefix("#/components/schemas/")]
    assert "name" in metadata["properties"]
    assert SCHEMA["properties"].keys() == {"spec"}, "the kind's own schema is left as it was"


def references(value: Any) -> set[str]:
    if isinstance(value, list):
        return {name for item in value for name in references(item)}
    if not isinstance(value, dict):
        return set()
    own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
    return own.union(*(references(part) for part in value.values()))


@pytest.mark.parametrize("path", ["api/v1", "apis/apps/v1", "apis/apiextensions.k8s.io/v1"])
def test_a_document_holds_all_that_it_refers_to(openapi: OpenApi, path: str) -> None:
    document = tree(ask(openapi, f"/openapi/v3/{path}"))
    names = {name.removeprefix("#/components/schemas/") for name in references(document)}
    assert names <= document["components"]["schemas"].keys()


@pytest.mark.parametrize(
    ("path", "strategic"),
    [
        ("/apis/apps/v1/namespaces/{namespace}/deployments/{name}", True),
        ("/apis/things.example.org/v1/namespaces/{namespace}/things/{name}", False),
    ],
)
def test_kubectl_learns_what_a_patch_may_be(openapi: OpenApi, path: str, strategic: bool) -> None:
    document = tree(ask(openapi, f"/openapi/v3/{'/'.join(path.strip('/').split('/')[:3])}"))
    patch = document["paths"][path]["patch"]
    parameters = {parameter["name"] for parameter in patch["parameters"] if parameter["in"] == "query"}
    assert {"fieldValidation", "dryRun", "fieldManager"} <= parameters
    content = patch["requestBody"]["content"]
    assert "application/apply-patch+yaml" in content
    assert ("application/strategic-merge-patch+json" in content) == strategic


def test_merge_keys_of_built_in_kinds_are_published(openapi: OpenApi) -> None:
    document = tree(ask(openapi, "/openapi/v3/apis/apps/v1"))
    containers = document["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"


def test_a_document_that_is_known_is_not_sent_again(openapi: OpenApi) -> None:
    etag = ask(openapi, "/openapi/v3/api/v1").headers["etag"]
    assert ask(openapi, "/openapi/v3/api/v1", if_none_match=etag).status == 304


def test_old_document_has_all_schemas_in_its_own_words(openapi: OpenApi) -> None:
    document = tree(ask(openapi, "/openapi/v2"))
    assert document["swagger"] == "2.0"
    thing = document["definitions"]["org.example.things.v1.Thing"]
    assert thing["properties"]["metadata"]["$ref"].startswith("#/definitions/")
    assert references(document) <= {f"#/definitions/{name}" for name in document["definitions"]}


def test_other_paths(openapi: OpenApi) -> None:
    assert ask(openapi, "/openapi/v3/apis/none/v1").status == 404
    assert ask(openapi, "/openapi/v9").status == 404
    assert openapi.respond(Request("GET", "/api/v1")) is None
