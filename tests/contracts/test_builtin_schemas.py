"""The schemas of built-in kinds are those of kube-apiserver."""

from __future__ import annotations

import pytest

from espalier.apiserver.builtin import builtin
from espalier.apiserver.schema.registry import ServedKind
from espalier.assets.recipes import ROW
from tests.support.environments.control_plane import ControlPlane
from tests.support.servers.builtin_schemas import differing, file_of, read, text_of


@pytest.mark.envtest
async def test_the_file_says_what_the_server_says(control_plane: ControlPlane) -> None:
    async with control_plane.connected() as client:
        result = await read(client)
    text = text_of(differing(ROW.name, result))
    assert text == file_of(ROW.name).read_text(), "run python -m tests.support.servers.builtin_schemas"


@pytest.mark.parametrize("minor", [builtin.FIRST, *builtin.LATER])
def test_every_kind_has_the_schema_of_its_version(minor: str) -> None:
    for kind in builtin.kinds(minor):
        assert (kind.minor, kind.schema["type"]) == (minor, "object")
        assert {"apiVersion", "kind", "metadata"} <= kind.node.properties.keys()


@pytest.mark.parametrize("kind", builtin.KINDS, ids=lambda kind: kind.resource.group_resource)
def test_every_built_in_kind_has_a_schema(kind: ServedKind) -> None:
    assert kind.schema["type"] == "object"
    assert "$ref" not in str(kind.schema).replace("'$ref': {'type': 'string'}", "")
    assert {"apiVersion", "kind", "metadata"} <= kind.node.properties.keys()
