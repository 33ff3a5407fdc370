"""The Kubernetes version that the embedded server reports, and the schemas that belong to it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from espalier.api.version_matrix import DEFAULT_ROW, KUBERNETES
from espalier.apiserver.builtin import builtin
from espalier.apiserver.server import Server
from espalier.kube.transports.wire import ADMIN, Request
from tests.support.servers.embedded_server import new_server

REVISION = "io.k8s.api.apps.v1.ControllerRevision"


async def ask(server: Server, path: str) -> Any:
    answer = await server.serve(Request("GET", path, {}, {}), ADMIN)
    assert answer.status == 200
    return json.loads(answer.body)


async def required(server: Server) -> list[str]:
    document = await ask(server, "/openapi/v3/apis/apps/v1")
    result: list[str] = document["components"]["schemas"][REVISION]["required"]
    return result


async def test_a_server_is_of_the_default_row(server: Server) -> None:
    assert (await ask(server, "/version"))["gitVersion"] == f"v{KUBERNETES[DEFAULT_ROW].patch}"
    assert await required(server) == ["revision"]


async def test_a_server_of_1_37_has_its_schemas(server: Server) -> None:
    before = await ask(server, "/openapi/v3")
    server.version = "v1.37.2"
    version = await ask(server, "/version")
    assert (version["gitVersion"], version["major"], version["minor"]) == ("v1.37.2", "1", "37")
    assert await required(server) == ["data"]
    assert (await ask(server, "/openapi/v3")) != before
    kind = server.registry.lookup("batch", "v1", "jobs")
    assert kind is not None
    assert "scheduling" in kind.schema["properties"]["spec"]["properties"]
    assert "scheduling" in kind.node.properties["spec"].properties
    server.version = "v1.36.3"
    assert await required(server) == ["revision"]
    assert (await ask(server, "/openapi/v3")) == before


async def test_a_server_can_start_as_1_37() -> None:
    server = new_server(version="v1.37.2")
    await server.start()
    assert await required(server) == ["data"]
    await server.close()


@pytest.mark.parametrize(
    ("version", "minor"),
    [("v1.34.4", "1.36"), ("v1.36.3", "1.36"), ("v1.37.2-eks-1-37-1", "1.37"), ("v1.40.0", "1.37"), ("", "1.36")],
)
def test_schemas_are_those_of_the_last_known_minor(version: str, minor: str) -> None:
    assert builtin.schemas_of(version) == minor


def test_definitions_of_1_37_differ_in_what_it_changed() -> None:
    before, after = builtin.definitions("1.36"), builtin.definitions("1.37")
    assert before.keys() < after.keys()
    assert before is builtin.definitions("1.36")
    assert "Recreate" in str(after["io.k8s.api.apps.v1.StatefulSetUpdateStrategy"])
    assert before["io.k8s.api.core.v1.Pod"] == after["io.k8s.api.core.v1.Pod"]
