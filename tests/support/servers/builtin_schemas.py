"""Makes src/espalier/apiserver/data/kubernetes-v1*.json out of a real kube-apiserver's OpenAPI documents.

    ESPALIER_ROW=1.37 python -m tests.support.servers.builtin_schemas

Names, types and merge rules of the fields of the kinds in `apiserver/builtin`; no descriptions. The envtest
suite holds the file of the row's minor version to the server; a later one has what differs from the first.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from espalier.apiserver.builtin import builtin
from espalier.assets.recipes import ROW
from espalier.kube.client import Client
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.transports.http import HttpTransport
from espalier.kube.transports.wire import Request
from tests.support.environments.control_plane import find_assets, real_control_plane, why_no_assets

FOLDER = Path(builtin.__file__).parents[1] / "data"

OTHERS = (
    "io.k8s.api.autoscaling.v1.Scale",
    "io.k8s.api.core.v1.Binding",
    "io.k8s.api.policy.v1.Eviction",
    "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
)
"""Bodies of subresources and options."""

_DROPPED = frozenset({"description", "externalDocs", "x-kubernetes-group-version-kind", "x-kubernetes-unions"})
_EMPTY: tuple[Any, ...] = ({}, [], "", 0, False)


async def read(client: Client) -> dict[str, Any]:
    """The definitions that our built-in kinds need, as a server has them."""
    schemas: dict[str, Any] = {}
    groups = {kind.resource.api_version for kind in builtin.KINDS} | {"autoscaling/v1"}
    for group in sorted(groups):
        path = f"/openapi/v3/apis/{group}" if "/" in group else f"/openapi/v3/api/{group}"
        document = msgspec.json.decode((await client.raw(Request("GET", path))).body)
        schemas |= document["components"]["schemas"]
    chosen: dict[str, Any] = {}
    wanted = [*(builtin.definition_of(kind.resource) for kind in builtin.KINDS), *OTHERS]
    while wanted:
        name = wanted.pop()
        if name not in chosen:
            chosen[name] = _bare(schemas[name])
            wanted += _references(chosen[name])
    return dict(sorted(chosen.items()))


def _bare(schema: Any) -> Any:
    """A schema without words, and without defaults that say nothing; references by name alone."""
    if isinstance(schema, list):
        return [_bare(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    bare: dict[str, Any] = {}
    for name, part in schema.items():
        if name == "properties":
            bare[name] = {field: _bare(below) | _always(below) for field, below in part.items()}
        elif name == "$ref":
            bare[name] = part.rpartition("/")[2]
        elif name == "allOf" and len(part) == 1:
            bare |= _bare(part[0])
        elif name not in _DROPPED and not (name == "default" and part in _EMPTY):
            bare[name] = _bare(part)
    return bare


def _always(schema: Any) -> dict[str, Any]:
    """The default of a field that is a struct, and no pointer: every object has it, if only an empty one."""
    return {"default": {}} if schema.get("default") == {} and "allOf" in schema else {}


def _references(schema: Any) -> list[str]:
    if isinstance(schema, list):
        return [name for part in schema for name in _references(part)]
    if not isinstance(schema, dict):
        return []
    own = [schema["$ref"]] if isinstance(schema.get("$ref"), str) else []
    return own + [name for part in schema.values() for name in _references(part)]


def file_of(minor: str) -> Path:
    """The file of a minor version of Kubernetes that has one."""
    return FOLDER / ("kubernetes-v1.json" if minor == builtin.FIRST else f"kubernetes-v1-{minor}.json")


def differing(minor: str, value: dict[str, Any]) -> dict[str, Any]:
    """The definitions of a server that belong into the file of its minor version."""
    before = {} if minor == builtin.FIRST else builtin.definitions()
    return {name: schema for name, schema in value.items() if before.get(name) != schema}


def text_of(definitions: dict[str, Any]) -> str:
    """The file: one definition a line."""
    lines = [
        f"{json.dumps(name)}:{json.dumps(schema, sort_keys=True, separators=(',', ':'))}"
        for name, schema in definitions.items()
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


async def main() -> None:
    assets = find_assets()
    if assets is None:
        raise SystemExit(why_no_assets())
    with tempfile.TemporaryDirectory() as folder:
        async with real_control_plane(Path(folder), assets) as control_plane:
            transport = HttpTransport(Kubeconfig.load([control_plane.kubeconfig]).context(), environment={})
            client = Client(transport)
            file_of(ROW.name).write_text(text_of(differing(ROW.name, await read(client))))
            await client.close()


if __name__ == "__main__":
    asyncio.run(main())
