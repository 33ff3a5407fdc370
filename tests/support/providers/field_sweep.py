"""A sweep over every field of a provider's kinds: what an API server says of values, by schemas and rules."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from espalier.api.core import CUSTOM_RESOURCE_DEFINITION, NAMESPACE
from espalier.api.definitions.crd import crd_of
from espalier.api.kinds import KubeObject
from espalier.api.meta import Tree
from espalier.kube.client import Client
from espalier.kube.errors import ApiError
from espalier.kube.transports.wire import ADMIN
from espalier.runtime.servers.admission import AdmissionRequest, Handler
from tests.support.objects.observed_clusters import as_object
from tests.support.servers.embedded_server import client_of, new_server

LOCAL = (
    *("0:0:0:0:0:0:0:1", "0000:0000:0000:0000:0000:0000:0000:0001", "::0001", "0:0:0:0:0:0:0:0"),
    *("::ffff:7f00:1", "0:0:0:0:0:ffff:7f00:1", "::ffff:a9fe:a9fe"),
    *("64:ff9b::7f00:1", "0064:ff9b:0:0:0:0:7f00:0001", "64:ff9b::127.0.0.1", "64:ff9b:1::a9fe:a9fe", "64:ff9b::"),
    *("2002:7f00:1::", "2002:a9fe:a9fe::1", "2002:E000:1::1", "::7f00:1", "::127.0.0.1", "ff02::1", "FF0E::1"),
)
"""Loopback, link-local and multicast addresses of IPv6 in all spellings, also those that stand for one of IPv4."""
LOCAL_IPV4 = ("127.0.0.1", "169.254.169.254", "0.0.0.0", "224.0.0.1", "239.255.255.250", "255.255.255.255")
NO_NAMES = (
    *(*LOCAL_IPV4, "localhost.localdomain", "a.LOCALHOST.localdomain.", "localhost6.localdomain6"),
    *("localhost4", "ip6-localhost", "ip6-loopback", "ipv6-localhost"),
    "2130706433",
    "0x7f000001",
    "0177.0.0.1",
    "0x7f.1",
    "127.1",
    "169.16689662",
    "0",
    "0x0",
    "a..b",
    "1.2.3.256",
)
"""Hosts that mean the machine itself, that resolvers take for addresses, or that nobody has."""


class Values(NamedTuple):
    """Values to write into a field."""

    accepted: list[Any]
    refused: list[Any]


def leaves(node: Tree, path: str = "") -> Iterator[str]:
    """Paths of the fields of a schema that have no fields themselves."""
    if node.get("type") == "array":
        inner = list(leaves(node["items"], f"{path}[]"))
        yield from inner if "properties" in node["items"] else [f"{path}[]"]
    elif "properties" in node:
        for name, below in node["properties"].items():
            yield from leaves(below, f"{path}.{name}" if path else name)
    elif "additionalProperties" in node:
        yield f"{path}{{}}"
    else:
        yield path


def all_leaves(kind: type[KubeObject], part: str = "spec") -> list[str]:
    """Paths of all fields of a spec, or of another part, that have no fields themselves."""
    schema = crd_of(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return list(leaves(schema["properties"][part]))


def swept(
    fields: Mapping[type[KubeObject], Mapping[str, Values]],
) -> Iterator[tuple[type[KubeObject], str, Values]]:
    """Each field of a table, with its values."""
    for kind, of_kind in fields.items():
        for path, values in of_kind.items():
            yield kind, path, values


async def server(kinds: Iterable[type[KubeObject]]) -> Client:
    """An API server that knows the kinds."""
    result = new_server()
    await result.start()
    client = client_of(result)
    await client.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}})
    for kind in kinds:
        await client.create(CUSTOM_RESOURCE_DEFINITION, crd_of(kind))
    return client


def _named_as_cluster(trees: list[Tree], kind: type[KubeObject]) -> Tree:
    name = trees[0]["metadata"]["name"]
    return next(tree for tree in trees if (tree["kind"], tree["metadata"]["name"]) == (kind.resource.kind, name))


async def verdict(client: Client, kind: type[KubeObject], trees: list[Tree]) -> str:
    """Why the object with the name of the Cluster is refused; empty if it is not."""
    try:
        await client.create(kind.resource, _named_as_cluster(trees, kind), dry_run=True)
    except ApiError as error:
        return str(error)
    return ""


def problems_of(
    kinds: Iterable[type[KubeObject]],
    cases: Iterable[tuple[type[KubeObject], str, Values]],
    example: Callable[[type[KubeObject], str, Any], list[Tree]],
    has_effect: Callable[[str, Any, list[Tree]], bool],
) -> list[str]:
    """Values that are refused or have no effect although they are to be accepted; that are accepted, or quoted with
    keys, although they are to be refused. `example` has a value in a field.
    """

    async def main() -> list[str]:
        client, problems = await server(kinds), []
        for kind, path, values in cases:
            for value in values.accepted:
                trees = example(kind, path, value)
                if refusal := await verdict(client, kind, trees):
                    problems.append(f"{path} {value!r} is refused: {refusal}")
                elif not has_effect(path, value, trees):
                    problems.append(f"{path} {value!r} has no effect, or one that is not expected")
            for value in values.refused:
                if not (refusal := await verdict(client, kind, example(kind, path, value))):
                    problems.append(f"{path} {value!r} is accepted")
                elif "PRIVATE" in refusal:
                    problems.append(f"{path} is quoted: {refusal}")
        return problems

    return asyncio.run(main())


def refusal_of(kinds: Iterable[type[KubeObject]], kind: type[KubeObject], trees: list[Tree]) -> str:
    """Why the object of a kind with the name of the Cluster is refused; empty if it is not."""

    async def main() -> str:
        return await verdict(await server(kinds), kind, trees)

    return asyncio.run(main())


def refusal_of_change(
    kinds: Iterable[type[KubeObject]], kind: type[KubeObject], trees: list[Tree], fields: Mapping[str, Any]
) -> str:
    """Why other values for fields of a stored spec are refused, where None removes one; empty if they are not."""

    async def main() -> str:
        client = await server(kinds)
        stored = (await client.create(kind.resource, _named_as_cluster(trees, kind))).tree
        spec = {name: value for name, value in {**stored["spec"], **fields}.items() if value is not None}
        try:
            await client.replace(kind.resource, stored | {"spec": spec}, dry_run=True)
        except ApiError as error:
            return str(error)
        return ""

    return asyncio.run(main())


async def refusal_of_last(kind: type[KubeObject], specs: Sequence[Tree]) -> str:
    """Why the last one of these is refused, which are applied one after the other; empty if it is not."""
    client, resource = await server([kind]), kind.resource
    metadata = {"name": "fleet", "namespace": "team-a"}
    try:
        for spec in specs:
            tree = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}
            await client.apply(resource, tree, field_manager="kubectl")
    except ApiError as error:
        assert spec is specs[-1]
        return str(error)
    return ""


def counted(
    capsys: pytest.CaptureFixture[str],
    of: str,
    kinds: Iterable[type[KubeObject]],
    swept: Iterable[tuple[Any, str, Values]],
    *,
    more: int = 0,
) -> tuple[int, int]:
    """Print how many fields there are (`more` than in their specs) and are swept; how many values are accepted, and
    refused.
    """
    values = [item for _, _, item in swept]
    accepted, refused = sum(len(value.accepted) for value in values), sum(len(value.refused) for value in values)
    fields = sum(len(all_leaves(kind)) for kind in kinds) + more
    with capsys.disabled():
        print(f"\n{fields} fields of {of}: {len(values)} swept, {accepted} values accepted, {refused} refused")
    return accepted, refused


def put(spec: Tree, path: str, value: Any) -> None:
    """Write a value into a field: `[]` stands for the whole list."""
    *parts, last = path.partition("[]")[0].split(".")
    for part in parts:
        spec = spec.setdefault(part, {})
    spec[last] = value


def put_everywhere(tree: Tree, path: str, value: Any) -> None:
    """Write a value into a field, wherever there are the parts that have it. A `[]` at the end is the whole list."""
    part, _, below = path.partition(".")
    name = part.removesuffix("[]")
    if not below:
        tree[name] = value
    elif name in tree:
        for item in [tree[name]] if part == name else tree[name]:
            put_everywhere(item, below, value)


WRONG_TYPES: tuple[Any, ...] = (1, True, {}, 1.5, "text", [1])


def is_of_wrong_type(kind: type[KubeObject], path: str, value: Any) -> bool:
    """True of a value that a field can't have; the path begins with `spec.` or `status.`."""
    node = crd_of(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for part in path.removesuffix("[]").replace("[]", ".[]").split("."):
        node = node["items"] if part == "[]" else node["properties"][part]
    return type(value) is not {"string": str, "integer": int, "boolean": bool}.get(node["type"])


def refusals(kind: type[KubeObject], trees: Iterable[Tree], webhook: Handler) -> list[list[str]]:
    """The refusals of each: by the API server, field by field, or else by the webhook. What is stored can be read."""

    async def main() -> list[list[str]]:
        client, result = await server([kind]), []
        for tree in trees:
            metadata = tree["metadata"] | ({"namespace": "team-a"} if kind.resource.namespaced else {})
            try:
                stored = await client.create(kind.resource, tree | {"metadata": metadata}, dry_run=True)
            except ApiError as error:
                causes = error.status.details.causes if error.status.details else []
            else:
                stored.decode(kind)
                causes = list(webhook(created(tree)).causes)
            result.append([f"{cause.field}: {cause.message}" for cause in causes])
        return result

    return asyncio.run(main())


def created(tree: Tree) -> AdmissionRequest:
    """The request to a webhook about a new object."""
    metadata = tree["metadata"]
    namespace = metadata.get("namespace", "")
    return AdmissionRequest("CREATE", tree["kind"], namespace, metadata["name"], ADMIN, as_object(tree), None)


def named(path: str) -> str:
    """A field as it is named without the places in lists."""
    return path.replace("[]", "")


def fields(causes: Iterable[str]) -> set[str]:
    """The fields of causes, without the places in lists."""
    return {re.sub(r"\[[0-9]+\]", "", cause.partition(":")[0]) for cause in causes}
