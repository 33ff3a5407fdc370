"""What readers follow in a benchmark: many objects of one kind, made and changed on a real API server."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import random
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from benchmarks.measure import size
from espalier.api.core import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, NAMESPACE
from espalier.api.resource import Resource
from espalier.kube.client import Client, PatchType
from tests.support.environments.control_plane import ControlPlane

T = TypeVar("T")

OBJECTS = size(3000, 20)
NAMESPACES = 10
WRITERS = 16


@dataclass(frozen=True)
class Watched:
    """A kind, and how the peer is told to watch it. `part` is the field that holds the content."""

    title: str
    resource: Resource
    part: str
    content: Callable[[random.Random], dict[str, Any]]
    peer: tuple[str, str]


def images(rng: random.Random) -> dict[str, Any]:
    """Images with their digests, as Bundles of EKS Anywhere list them: 10 KB."""
    return {
        "images": [
            {
                "name": f"image-{number}",
                "description": f"Container image for image-{number}",
                "os": "linux",
                "arch": ["amd64", "arm64"],
                "uri": f"registry.example.com/images/image-{number}:v1.{number}.{rng.randrange(100)}",
                "imageDigest": f"sha256:{hashlib.sha256(rng.randbytes(8)).hexdigest()}",
            }
            for number in range(38)
        ]
    }


def files(rng: random.Random) -> dict[str, Any]:
    """Files of text: 10 KB."""
    return {f"file-{number}.conf": "\n".join(rng.randbytes(16).hex() for _ in range(32)) for number in range(9)}


CATALOG = Resource("bench.espalier.dev", "v1", "catalogs", "Catalog")
CUSTOM_OBJECTS = Watched(
    "custom objects (the peer holds them unstructured)", CATALOG, "spec", images, ("-resource", "/".join(CATALOG[:3]))
)
CONFIG_MAPS = Watched(
    "ConfigMaps (the peer holds them typed, and reads protobuf)", CONFIG_MAP, "data", files, ("-typed", "configmaps")
)


class Population:
    """`OBJECTS` objects of a kind."""

    def __init__(self, control_plane: ControlPlane, client: Client, watched: Watched) -> None:
        self.watched = watched
        self._control_plane = control_plane
        self._client = client
        self._namespaces = [f"tenant-{number}" for number in range(NAMESPACES)]
        self._names = [(self._namespaces[number % NAMESPACES], f"object-{number}") for number in range(OBJECTS)]
        self._revisions = itertools.count(1)

    async def create(self) -> None:
        """Create all, and the namespaces that they live in."""
        client, watched, rng = self._client, self.watched, random.Random(1)
        if watched.resource is CATALOG:
            crd = await client.create(CUSTOM_RESOURCE_DEFINITION, definition(CATALOG))
            await self._control_plane.run_kubectl("wait", "--for=condition=Established", f"crd/{crd.name}")
        for name in self._namespaces:
            await client.create(NAMESPACE, {"metadata": {"name": name}})

        async def create(name: tuple[str, str]) -> None:
            body = {"metadata": metadata(*name), watched.part: watched.content(rng)}
            await client.create(watched.resource, body)

        await in_parallel(create, self._names)

    async def change(self) -> None:
        """Change each object once."""
        patch = {self.watched.part: {"revision": f"{next(self._revisions)}"}}

        async def change(name: tuple[str, str]) -> None:
            await self._client.patch(self.watched.resource, name[1], name[0], patch=patch, type=PatchType.MERGE)

        await in_parallel(change, self._names)


def metadata(namespace: str, name: str) -> dict[str, Any]:
    """Labels, annotations and an owner, as objects of Cluster API have them."""
    owner = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": namespace, "uid": f"uid-{namespace}"}
    return {
        "name": name,
        "namespace": namespace,
        "labels": {"cluster.x-k8s.io/cluster-name": namespace, "app.kubernetes.io/managed-by": "bench"},
        "annotations": {"cluster.x-k8s.io/cloned-from-name": name},
        "finalizers": ["bench.espalier.dev/kept"],
        "ownerReferences": [owner | {"controller": True}],
    }


def definition(resource: Resource) -> dict[str, Any]:
    """The CRD of a kind whose content the API server does not look into."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    names = {"plural": resource.plural, "singular": resource.kind.lower(), "kind": resource.kind}
    version = {"name": resource.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    spec = {"group": resource.group, "scope": "Namespaced", "names": names, "versions": [version]}
    return {"metadata": {"name": resource.group_resource}, "spec": spec}


async def in_parallel(act: Callable[[T], Awaitable[None]], items: Iterable[T]) -> None:
    """Act on all items in order, on `WRITERS` at a time."""
    waiting = iter(items)

    async def work(waiting: Iterator[T]) -> None:
        for item in waiting:
            await act(item)

    await asyncio.gather(*(work(waiting) for _ in range(WRITERS)))
