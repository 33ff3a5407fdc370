"""The view of a controller without a server: caches that are filled by hand."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from espalier.api.capi.kubeadm import KubeadmConfig
from espalier.api.capi.machine import Machine
from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.upgrades import FrontEnd
from espalier.api.eksa.vocabulary.group import PAUSED_ANNOTATION
from espalier.api.manifests.manifests import read_manifests
from espalier.api.meta import ObjectMeta, Tree
from espalier.api.resource import Key
from espalier.clusterapi.machines.machine_objects import MachineObjects
from espalier.clusters.design.layers import LAYERS, Layer
from espalier.clusters.design.provider import Provider
from espalier.clusters.design.render.layered import rendered
from espalier.clusters.design.rendered import Rendered
from espalier.clusters.observe.observe import ClusterObserver
from espalier.clusters.observe.scope import Scope
from espalier.clusters.report.validity import problem
from espalier.kube.client import Client
from espalier.kube.objects import Object, encode_json, to_bytes
from espalier.kube.transports.wire import Request, Response, Stream
from espalier.providers.docker.kinds import DockerDatacenterConfig
from espalier.providers.registry import PROVIDERS
from espalier.releases import Releases
from espalier.runtime.caches.cache import Caches

EXAMPLES = Path(__file__).parents[3] / "examples"
RELEASES = Releases.load()
NAMESPACE = "team-a"
ANNOTATIONS = FrontEnd.ANNOTATIONS
NOW = datetime(2026, 3, 1, tzinfo=UTC)
"""When nothing of the releases of this build is near the end of its support."""
GARDEN = Key(NAMESPACE, "garden")


class NoServer:
    """A transport on which nothing may be asked."""

    async def request(self, request: Request) -> Response:
        raise AssertionError(f"{request.method} {request.path}: a pure function asked the server")

    async def stream(self, request: Request) -> Stream | Response:
        raise AssertionError(f"{request.path}: a pure function asked the server")

    async def close(self) -> None: ...


def example(name: str = "docker.yaml", **spec: Any) -> list[Tree]:
    """The documents of an example, as the server would store them; `spec` replaces fields of the Cluster's spec."""
    trees: list[Tree] = json.loads(_documents(name))
    for number, tree in enumerate(trees):
        tree["metadata"] |= {"namespace": NAMESPACE, "uid": f"uid-{number}", "generation": 1, "resourceVersion": "7"}
        tree["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
        if tree["kind"] == "Cluster":
            tree["spec"] |= {"eksaVersion": "v0.26.0"} | spec
    return trees


@cache
def _documents(name: str) -> bytes:
    return encode_json([document.tree for document in read_manifests((EXAMPLES / name).read_bytes(), source=name)])


def laptop() -> Tree:
    """The management cluster."""
    return {
        "apiVersion": eksa.Cluster.resource.api_version,
        "kind": "Cluster",
        "metadata": {
            "name": "laptop",
            "namespace": "default",
            "uid": "laptop",
            "generation": 1,
            "resourceVersion": "1",
            "annotations": {PAUSED_ANNOTATION: "true"},
        },
        "spec": {
            "kubernetesVersion": "1.36",
            "eksaVersion": "v0.26.0",
            "controlPlaneConfiguration": {"count": 1},
            "managementCluster": {"name": "laptop"},
        },
    }


def naming(record: Tree) -> Tree:
    """The ConfigMap that says which Cluster is the management cluster."""
    metadata = {"name": "management-cluster", "namespace": "eksa-system", "uid": "marker", "resourceVersion": "1"}
    data = {name: record["metadata"][name] for name in ("namespace", "name")}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def _last_record(trees: Sequence[Tree]) -> Tree:
    """Of the Clusters that manage themselves, the one that a test gave last."""
    clusters = [tree for tree in trees if tree["kind"] == "Cluster" and "managementCluster" in tree["spec"]]
    return [
        cluster for cluster in clusters if cluster["spec"]["managementCluster"]["name"] == cluster["metadata"]["name"]
    ][-1]


def observer(
    *trees: Tree,
    with_releases: bool = True,
    layers: Sequence[Layer] = LAYERS,
    front_end: FrontEnd = ANNOTATIONS,
    providers: Mapping[str, Provider] = PROVIDERS,
) -> ClusterObserver:
    """An observer that has seen the management cluster, the releases of this build, and these objects."""
    caches = Caches(Client(NoServer()))
    made = ClusterObserver(caches, layers=layers, front_end=front_end, providers=providers)
    seen = [laptop(), *trees]
    seen += [] if any(tree["kind"] == "ConfigMap" for tree in trees) else [naming(_last_record(seen))]
    fill(caches, seen, _releases() if with_releases else ())
    return made


@cache
def _releases() -> tuple[Object, ...]:
    """The releases of this build, read once for all tests: nothing is stripped from them, so caches may share them."""
    return tuple(as_object(msgspec.to_builtins(object_)) for object_ in RELEASES.objects())


def fill(caches: Caches, trees: Iterable[Tree], shared: Iterable[Object] = ()) -> None:
    """Have the caches know these objects, and no others."""
    raw: defaultdict[tuple[str, str], list[bytes]] = defaultdict(list)
    for tree in trees:
        raw[tree["kind"], tree["apiVersion"]].append(to_bytes(tree))
    objects: defaultdict[tuple[str, str], list[Object]] = defaultdict(list)
    for element in shared:
        objects[element.kind, element.head.api_version].append(element)
    for cached in caches.all:
        kind = (cached.source.resource.kind, cached.source.resource.api_version)
        cached.begin_list()
        cached.listed([*(Object(item) for item in raw[kind]), *objects[kind]])  # each cache changes its own
        cached.end_list("1000")


def as_object(tree: Tree) -> Object:
    """An object as it is read."""
    return Object(to_bytes(tree))


def machine_objects(
    machine: Machine, config: KubeadmConfig | None = None, infrastructure: ObjectMeta | None = None
) -> MachineObjects:
    """A machine with the objects that it was created from, as they are read."""
    return MachineObjects(
        Object(to_bytes(machine)),
        Object(to_bytes(config)) if config else None,
        Object(to_bytes({"metadata": infrastructure})) if infrastructure else None,
    )


def scope(
    *trees: Tree, key: Key = GARDEN, layers: Sequence[Layer] = LAYERS, front_end: FrontEnd = ANNOTATIONS
) -> Scope:
    """The scope of a reconcile of a Cluster among these objects."""
    observed = observer(*trees, layers=layers, front_end=front_end).scope(key)
    assert observed is not None
    return observed


def rendered_of(value: Scope) -> Rendered:
    """The rendered objects of a Cluster with which nothing is wrong."""
    assert problem(value) is None
    assert value.render_input is not None, value.missing
    return rendered(value.render_input)


def datacenter(name: str = "garden") -> Tree:
    """The linked object of the examples."""
    return {
        "apiVersion": DockerDatacenterConfig.resource.api_version,
        "kind": "DockerDatacenterConfig",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": "dc", "generation": 1, "resourceVersion": "1"},
        "spec": {},
    }


def applied(tree: Tree, manager: str = "eks-a-controller") -> Tree:
    """An object as a server stores it after this manager applied it (lists of maps count as one field here)."""
    body = {name: value for name, value in tree.items() if name not in ("apiVersion", "kind")}
    metadata = {name: value for name, value in body.pop("metadata").items() if name not in ("name", "namespace")}
    fields = _fields(body | ({"metadata": metadata} if metadata else {}))
    entry = {"manager": manager, "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": fields}
    stored: Tree = json.loads(json.dumps(tree))
    stored["metadata"] |= {
        "uid": f"uid-{tree['kind']}-{tree['metadata']['name']}",
        "resourceVersion": "8",
        "generation": 1,
    }
    stored["metadata"]["managedFields"] = [entry]
    return stored


def _fields(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        return {}
    return {f"f:{name}": _fields(inner) for name, inner in value.items()}
