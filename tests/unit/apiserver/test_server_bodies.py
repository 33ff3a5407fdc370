"""Bodies that are not as they should be, and those that a server need not read."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from espalier.api.core import (
    CUSTOM_RESOURCE_DEFINITION,
)
from espalier.apiserver.server import Server
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import BadRequest, Invalid
from espalier.kube.transports.wire import User
from tests.support.servers.embedded_server import THING, definition, raw

MAPS = "/api/v1/namespaces/default/configmaps"


async def test_bodies_in_yaml_and_protobuf_equal_json(server: Server) -> None:
    yaml = b"kind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\ndata: {a: 'b'}\n"
    made = await raw(server, "PATCH", f"{MAPS}/a", "application/apply-patch+yaml", yaml)
    assert made.status == 201
    assert msgspec.json.decode(made.body)["data"] == {"a": "b"}
    namespace = b"k8s\x00\n\x0f\n\x02v1\x12\tNamespace\x12\x05\n\x03\n\x01a"
    media = "application/vnd.kubernetes.protobuf"
    assert (await raw(server, "POST", "/api/v1/namespaces", media, namespace)).status == 201
    assert (await raw(server, "POST", "/api/v1/namespaces", media, b"k8s\x00\n\x0f\n")).status == 400
    assert (await raw(server, "PATCH", f"{MAPS}/a", "application/apply-patch+yaml", b"a: [")).status == 400
    other = await raw(server, "POST", MAPS, "application/cbor", b"\xa0")
    assert (other.status, msgspec.json.decode(other.body)["reason"]) == (415, "UnsupportedMediaType")


@pytest.mark.parametrize(
    ("media", "content"),
    [
        ("application/json", b"[" * 5000 + b"]" * 5000),
        ("application/json", b'{"data":' * 300 + b"{}" + b"}" * 300),
        ("application/yaml", b"[" * 60_000),
        ("application/apply-patch+yaml", b"? " * 60_000),
        ("application/apply-patch+yaml", b'{"a":' * 60_000),
        ("application/merge-patch+json", b'{"data":' * 300 + b"{}" + b"}" * 300),
        ("application/json-patch+json", b"[" * 5000 + b"]" * 5000),
    ],
)
async def test_endless_nesting_is_a_bad_request(server: Server, media: str, content: bytes) -> None:
    await raw(server, "POST", MAPS, "application/json", b'{"metadata":{"name":"a"}}')
    for method, path in (("POST", MAPS), ("PATCH", f"{MAPS}/a"), ("PUT", f"{MAPS}/a"), ("DELETE", f"{MAPS}/a")):
        answer = await raw(server, method, path, media, content)
        assert answer.status in (400, 415), (method, answer.body)


async def test_the_body_of_a_forbidden_write_is_not_read(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(body: bytes, content_type: str) -> bytes:
        raise AssertionError("read")

    monkeypatch.setattr("espalier.apiserver.wire.content.json_of", never)
    nobody = User("nobody", ("system:authenticated",))
    for method, path in (("PATCH", f"{MAPS}/a"), ("POST", MAPS), ("PUT", f"{MAPS}/a"), ("DELETE", f"{MAPS}/a")):
        answer = await raw(server, method, path, "application/apply-patch+yaml", b"[" * 60_000, nobody)
        assert answer.status == 403
    assert (await raw(server, "GET", MAPS, "application/yaml", b"[" * 60_000)).status == 200


@pytest.mark.soak
async def test_copies_of_a_json_patch_are_counted(server: Server) -> None:
    await raw(server, "POST", MAPS, "application/json", b'{"metadata":{"name":"a"},"data":{"a":"b"}}')
    doubling = [{"op": "copy", "from": "/data", "path": f"/data/{number}"} for number in range(60)]
    answer = await raw(server, "PATCH", f"{MAPS}/a", "application/json-patch+json", msgspec.json.encode(doubling))
    assert answer.status == 413
    deeper = [{"op": "add", "path": "/x" * depth, "value": {}} for depth in range(1, 300)]
    answer = await raw(server, "PATCH", f"{MAPS}/a", "application/json-patch+json", msgspec.json.encode(deeper))
    assert (answer.status, b"levels deep" in answer.body) == (400, True)


@pytest.mark.soak
async def test_rules_of_one_object_have_a_budget(client: Client) -> None:
    items = {"type": "integer", "x-kubernetes-validations": [{"rule": f"self != {number}"} for number in range(20)]}
    schema = {"properties": {"l": {"type": "array", "items": items}}}
    await client.create(CUSTOM_RESOURCE_DEFINITION, definition(schema=schema))
    await client.create(THING, {"metadata": {"name": "a", "namespace": "default"}, "l": [99] * 1000})
    with pytest.raises(Invalid, match="running out of cost budget"):
        await client.create(THING, {"metadata": {"name": "b", "namespace": "default"}, "l": [99] * 30_000})


@pytest.mark.parametrize("below", [{"properties": 5}, {"type": 1}, {"items": "x"}, {"allOf": [5]}, 5, [{}]])
@pytest.mark.parametrize("where", ["items", "additionalProperties"])
async def test_schemas_beside_booleans_are_schemas(client: Client, below: Any, where: str) -> None:
    inner = {"type": "array" if where == "items" else "object", where: below}
    with pytest.raises((BadRequest, Invalid)):
        await client.create(CUSTOM_RESOURCE_DEFINITION, definition(schema={"properties": {"l": inner}}))


@pytest.mark.parametrize("spec", [5, "x", [], {"resourceAttributes": 5}, {"user": 5, "groups": "x"}, {"groups": [5]}])
@pytest.mark.parametrize("plural", ["selfsubjectaccessreviews", "subjectaccessreviews", "selfsubjectrulesreviews"])
async def test_access_reviews_of_other_types_are_refused(server: Server, plural: str, spec: Any) -> None:
    path = f"/apis/authorization.k8s.io/v1/{plural}"
    answer = await raw(server, "POST", path, "application/json", msgspec.json.encode({"spec": spec}))
    assert 400 <= answer.status < 500 or (plural, answer.status) == ("selfsubjectrulesreviews", 201)


@pytest.mark.parametrize(("spec", "status"), [(True, 400), ([1], 400), (None, 422), ({}, 422)])
async def test_signing_requests_without_a_spec_are_refused(server: Server, spec: Any, status: int) -> None:
    path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    body = msgspec.json.encode({"metadata": {"name": "a"}, "spec": spec})
    assert (await raw(server, "POST", path, "application/json", body)).status == status


@pytest.mark.parametrize(
    ("path", "tree", "problem"),
    [
        (MAPS, {"kind": "ConfigMap", "metadata": [1]}, ".metadata: expected map, got &{[1]}"),
        (MAPS, {"kind": "ConfigMap", "metadata": {"name": 1}}, ".metadata.name: expected string"),
        (MAPS, {"kind": "ConfigMap", "metadata": {"name": "a", "namespace": []}}, ".metadata.namespace: expected"),
        (MAPS, {"kind": "ConfigMap", "metadata": {"name": "a", "finalizers": [None]}}, "an explicit null"),
        (
            "/api/v1/namespaces/default/services",
            {"kind": "Service", "metadata": {"name": "a"}, "spec": {"ports": [None]}},
            "may not have a null element",
        ),
    ],
)
async def test_applied_parts_of_another_type_are_named(server: Server, path: str, tree: Any, problem: str) -> None:
    """With 500, as kube-apiserver says it."""
    body = msgspec.json.encode({"apiVersion": "v1", **tree})
    answer = await raw(server, "PATCH", f"{path}/a", "application/apply-patch+yaml", body)
    message = msgspec.json.decode(answer.body)["message"]
    assert answer.status == 500
    assert message.startswith("failed to create typed patch object")
    assert problem in message


async def test_a_version_of_null_is_that_of_the_path(server: Server) -> None:
    body = b'{"apiVersion":null,"kind":null,"metadata":{"name":"a"}}'
    assert (await raw(server, "POST", MAPS, "application/json", body)).status == 201


async def test_conditions_of_a_definition_need_no_type(client: Client) -> None:
    made = await client.create(CUSTOM_RESOURCE_DEFINITION, definition())
    status = {"status": {"conditions": [{"status": "True"}]}}
    patched = await client.patch(
        CUSTOM_RESOURCE_DEFINITION, made.name, patch=status, type=PatchType.MERGE, subresource="status"
    )
    assert {"Established", "NamesAccepted"} <= {part.get("type") for part in patched.tree["status"]["conditions"]}
