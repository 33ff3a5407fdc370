"""The client's requests on the wire, and how it reads the answers."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pytest

from espalier.api.resource import Resource
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    NotFound,
    NotKubernetes,
    ServerFailure,
    Status,
    TooManyRequests,
    Unreachable,
)
from espalier.kube.transports.wire import Request, Response
from tests.support.servers.scripted_server import Script, client_of, failure, json_response

SECRETS = Resource("", "v1", "secrets", "Secret")
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
MACHINES = Resource("cluster.x-k8s.io", "v1beta2", "machines", "Machine")


def secret(name: str = "a", **metadata: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": "ns", **metadata},
        "data": {"value": "eA=="},
    }


async def test_an_object_is_read_by_its_path() -> None:
    script = Script(json_response(secret(resourceVersion="7")))
    object_ = await client_of(script).get(SECRETS, "a", "ns")
    assert (object_.key, object_.resource_version) == (("ns", "a"), "7")
    assert object_.tree["data"] == {"value": "eA=="}
    assert script.requests[0].path == "/api/v1/namespaces/ns/secrets/a"


@pytest.mark.parametrize(
    ("call", "method", "path", "content_type", "query"),
    [
        (
            lambda c: c.create(SECRETS, secret()),
            "POST",
            "/api/v1/namespaces/ns/secrets",
            "application/json",
            {},
        ),
        (
            lambda c: c.replace(SECRETS, secret(), subresource="status", dry_run=True),
            "PUT",
            "/api/v1/namespaces/ns/secrets/a/status",
            "application/json",
            {"dryRun": "All"},
        ),
        (
            lambda c: c.patch(MACHINES, "m", "ns", patch={"spec": {}}, type=PatchType.MERGE),
            "PATCH",
            "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/machines/m",
            "application/merge-patch+json",
            {},
        ),
        (
            lambda c: c.patch(NODES, "n", patch=[{"op": "remove", "path": "/spec"}], type=PatchType.JSON),
            "PATCH",
            "/api/v1/nodes/n",
            "application/json-patch+json",
            {},
        ),
        (
            lambda c: c.apply(SECRETS, secret(), force=False, field_manager="other"),
            "PATCH",
            "/api/v1/namespaces/ns/secrets/a",
            "application/apply-patch+yaml",
            {"force": "false", "fieldManager": "other"},
        ),
    ],
)
async def test_write_has_its_manager_and_strict_validation(
    call: Callable[[Client], Coroutine[Any, Any, object]],
    method: str,
    path: str,
    content_type: str,
    query: dict[str, str],
) -> None:
    script = Script(json_response(secret()))
    await call(client_of(script, field_manager="eks-a-controller"))
    [request] = script.requests
    assert (request.method, request.path, request.headers["content-type"]) == (method, path, content_type)
    assert request.query == {"fieldManager": "eks-a-controller", "fieldValidation": "Strict"} | query


async def test_a_body_always_names_its_kind() -> None:
    script = Script(json_response(secret()), json_response(secret()))
    client = client_of(script)
    await client.create(SECRETS, {"metadata": {"name": "a", "namespace": "ns"}})
    await client.create(SECRETS, b' {"kind":"Secret","metadata":{"name":"a","namespace":"ns"}}')
    for request in script.requests:
        assert msgspec.json.decode(request.body) == {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "a", "namespace": "ns"},
        }


async def test_a_read_object_can_be_written_back() -> None:
    script = Script(json_response(secret(resourceVersion="7")), json_response(secret(resourceVersion="8")))
    client = client_of(script)
    read = await client.get(SECRETS, "a", "ns")
    assert (await client.replace(SECRETS, read)).resource_version == "8"
    assert script.requests[1].body == read.raw


async def test_list_reads_all_pages_with_their_kind() -> None:
    def page(*names: str, more: str = "") -> dict[str, Any]:
        items = [{"metadata": {"name": name, "namespace": "ns"}} for name in names]
        return {"kind": "SecretList", "metadata": {"resourceVersion": "9", "continue": more}, "items": items}

    script = Script(json_response(page("a", "b", more="token")), json_response(page("c")))
    objects = await client_of(script).list(SECRETS, labels="app=x", fields="type=y", limit=2)
    assert [item.name for item in objects.items] == ["a", "b", "c"]
    assert objects.resource_version == "9"
    assert {item.tree["kind"] for item in objects.items} == {"Secret"}
    assert {item.kind for item in objects.items} == {"Secret"}
    selectors = {"labelSelector": "app=x", "fieldSelector": "type=y", "limit": "2"}
    assert script.requests[0].query == selectors
    assert script.requests[1].query == selectors | {"continue": "token"}
    assert script.requests[0].path == "/api/v1/secrets"


async def test_list_expired_between_pages_is_read_at_once() -> None:
    first = {"metadata": {"resourceVersion": "9", "continue": "token"}, "items": [secret("old")]}
    complete = {"metadata": {"resourceVersion": "12"}, "items": [secret("a"), secret("b")]}
    script = Script(json_response(first), failure(Expired.of("too old")), json_response(complete))
    objects = await client_of(script).list(SECRETS)
    assert ([item.name for item in objects.items], objects.resource_version) == (["a", "b"], "12")
    assert script.requests[2].query == {}


async def test_delete_has_preconditions_and_tells_the_end() -> None:
    script = Script(json_response(Status(status="Success", code=200)), json_response(secret(deletionTimestamp="x")))
    client = client_of(script)
    assert await client.delete(SECRETS, "a", "ns", propagation="Foreground", uid="u", resource_version="3") is None
    assert msgspec.json.decode(script.requests[0].body) == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Foreground",
        "preconditions": {"uid": "u", "resourceVersion": "3"},
    }
    held = await client.delete(SECRETS, "a", "ns", grace_period_seconds=0, dry_run=True)
    assert held is not None
    assert held.name == "a"
    options = msgspec.json.decode(script.requests[1].body)
    assert (options["dryRun"], options["gracePeriodSeconds"]) == (["All"], 0)


@pytest.mark.parametrize("error", [AlreadyExists, Conflict, Expired, Forbidden, Invalid, NotFound, ServerFailure])
async def test_a_failure_has_its_own_class(error: type[ApiError]) -> None:
    with pytest.raises(error, match="a sentence") as caught:
        await client_of(Script(failure(error.of("a sentence")))).create(SECRETS, secret())
    assert type(caught.value) is error


async def test_a_name_cannot_lead_elsewhere() -> None:
    client = client_of(Script())
    for name in ("", "..", "a/b", "a%2fb"):
        with pytest.raises(Invalid):
            await client.get(SECRETS, name, "ns")
    for namespace in (None, "", "../x"):
        with pytest.raises(Invalid):
            await client.get(SECRETS, "a", namespace)
        with pytest.raises(Invalid):
            await client.delete(SECRETS, "a", namespace)
    with pytest.raises(Invalid):
        await client.create(SECRETS, {"metadata": {"name": "a"}})


async def test_an_answer_of_something_else_is_called_so() -> None:
    page = Response(200, b"<html>Please log in</html>")
    client = client_of(Script(page, page, page))
    with pytest.raises(NotKubernetes, match="Please log in"):
        await client.get(SECRETS, "a", "ns")
    with pytest.raises(NotKubernetes):
        await client.list(SECRETS)
    with pytest.raises(NotKubernetes):
        await client.delete(SECRETS, "a", "ns")


async def test_write_is_repeated_when_server_names_time() -> None:
    busy = failure(TooManyRequests.of("busy"), {"retry-after": "0"})
    script = Script(busy, busy, json_response(secret()))
    assert (await client_of(script).create(SECRETS, secret())).name == "a"
    assert len(script.requests) == 3


async def test_patience_ends() -> None:
    busy = failure(TooManyRequests.of("busy"), {"retry-after": "0"})
    with pytest.raises(TooManyRequests):
        await client_of(Script(busy, busy, busy)).create(SECRETS, secret())


async def test_broken_connection_repeats_reads_only() -> None:
    lost, refused = Unreachable("lost"), Unreachable("refused", sent=False)
    answer = json_response(secret())
    assert await client_of(Script(lost, lost, answer)).get(SECRETS, "a", "ns")
    assert await client_of(Script(refused, refused, answer)).create(SECRETS, secret())
    script = Script(lost, answer)
    with pytest.raises(Unreachable, match="lost"):
        await client_of(script).create(SECRETS, secret())
    assert len(script.requests) == 1


async def test_warnings_reach_whoever_listens() -> None:
    warnings: list[str] = []
    headers = {"warning": r'299 - "v1alpha1 is deprecated", 299 - "say \"hello\", please"'}
    client = client_of(Script(json_response(secret(), headers=headers)), on_warning=warnings.append)
    await client.get(SECRETS, "a", "ns")
    assert warnings == ["v1alpha1 is deprecated", 'say "hello", please']


async def test_any_other_request_is_answered_as_it_is() -> None:
    script = Script(Response(404, b"no"))
    response = await client_of(script, user_agent="me/1").raw(Request("GET", "/readyz", headers={"accept": "*/*"}))
    assert (response.status, response.body) == (404, b"no")
    assert script.requests[0].headers == {"accept": "*/*", "user-agent": "me/1"}
