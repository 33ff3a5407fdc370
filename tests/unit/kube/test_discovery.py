"""A word that people use leads to the resource that kubectl would take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from espalier.api.resource import Resource
from espalier.kube.discovery import Discovery, UnknownResource
from espalier.kube.errors import Forbidden, NotFound, NotKubernetes
from espalier.kube.transports.wire import Request, Response, Stream, User
from tests.support.servers.scripted_server import client_of, failure, json_response

PODS = Resource("", "v1", "pods", "Pod")
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
EKSA_CLUSTERS = Resource("anywhere.eks.amazonaws.com", "v1alpha1", "clusters", "Cluster")
CAPI_CLUSTERS = Resource("cluster.x-k8s.io", "v1beta2", "clusters", "Cluster")
MACHINES = Resource("cluster.x-k8s.io", "v1beta2", "machines", "Machine")
OLD_MACHINES = Resource("cluster.x-k8s.io", "v1beta1", "machines", "Machine")
SHORT = {"pods": ["po"], "nodes": ["no"], "machines": ["ma"]}
GROUPS: dict[str, dict[str, list[Resource]]] = {
    "": {"v1": [PODS, NODES]},
    "anywhere.eks.amazonaws.com": {"v1alpha1": [EKSA_CLUSTERS]},
    "cluster.x-k8s.io": {"v1beta2": [CAPI_CLUSTERS, MACHINES], "v1beta1": [OLD_MACHINES]},
}


def aggregated(groups: Mapping[str, Mapping[str, list[Resource]]]) -> dict[str, Any]:
    def of(resource: Resource) -> dict[str, Any]:
        return {
            "resource": resource.plural,
            "responseKind": {"group": resource.group, "version": resource.version, "kind": resource.kind},
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "singularResource": resource.kind.lower(),
            "verbs": ["get", "list"],
            "shortNames": SHORT.get(resource.plural, []),
            "subresources": [{"subresource": "status"}],
        }

    items = [
        {
            "metadata": {"name": name},
            "versions": [
                {"version": version, "resources": [of(resource) for resource in resources]}
                for version, resources in versions.items()
            ],
        }
        for name, versions in groups.items()
    ]
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": items}


class Modern:
    """Aggregated discovery."""

    def __init__(self) -> None:
        self.groups = dict(GROUPS)
        self.requests = 0

    async def serve(self, request: Request, user: User) -> Response:
        self.requests += 1
        assert "as=APIGroupDiscoveryList" in request.headers["accept"]
        core = request.path == "/api"
        return json_response(aggregated({name: v for name, v in self.groups.items() if (name == "") == core}))

    async def watch(self, request: Request, user: User) -> Stream | Response:
        raise NotImplementedError


class Legacy(Modern):
    """One document for each group and version; one group's server is away."""

    async def serve(self, request: Request, user: User) -> Response:
        self.requests += 1
        if request.path == "/api":
            return json_response({"kind": "APIVersions", "versions": ["v1"]})
        if request.path == "/apis":
            names = {name: list(versions) for name, versions in self.groups.items() if name} | {"away.test": ["v1"]}
            groups = [
                {
                    "name": name,
                    "versions": [{"version": version} for version in sorted(versions)],
                    "preferredVersion": {"version": versions[0]},
                }
                for name, versions in names.items()
            ]
            return json_response({"kind": "APIGroupList", "groups": groups})
        *_, group, version = request.path.split("/")
        versions = self.groups.get("" if group == "api" else group)
        if versions is None:
            return failure(NotFound.of("away"))
        resources = [
            {
                "name": resource.plural,
                "singularName": "",
                "kind": resource.kind,
                "namespaced": resource.namespaced,
                "verbs": ["get"],
                "shortNames": SHORT.get(resource.plural, []),
            }
            for resource in versions[version]
        ]
        return json_response({"resources": [*resources, {"name": "pods/status", "kind": "Pod", "namespaced": True}]})


@pytest.mark.parametrize("server", [Modern, Legacy])
@pytest.mark.parametrize(
    ("word", "resource"),
    [
        ("pods", PODS),
        ("Pod", PODS),
        ("po", PODS),
        ("pods.v1.", PODS),
        ("node", NODES),
        ("clusters", EKSA_CLUSTERS),
        ("cluster", EKSA_CLUSTERS),
        ("clusters.cluster.x-k8s.io", CAPI_CLUSTERS),
        ("ma", MACHINES),
        ("machines.v1beta1.cluster.x-k8s.io", OLD_MACHINES),
    ],
)
async def test_names_resolve_to_resources(server: type[Modern], word: str, resource: Resource) -> None:
    assert await Discovery(client_of(server())).resolve(word) == resource


async def test_server_is_asked_once_and_again_for_new_kinds() -> None:
    server = Modern()
    discovery = Discovery(client_of(server))
    await discovery.resolve("pods")
    await discovery.resolve("nodes")
    assert server.requests == 2
    new = Resource("new.test", "v1", "gadgets", "Gadget")
    server.groups["new.test"] = {"v1": [new]}
    assert await discovery.resolve("gadgets") == new
    with pytest.raises(UnknownResource, match='no resource "machine5"; did you mean "machines"'):
        await discovery.resolve("machine5")


async def test_a_server_that_answers_otherwise_is_said_to() -> None:
    class Other(Modern):
        def __init__(self, answer: Response) -> None:
            super().__init__()
            self.answer = answer

        async def serve(self, request: Request, user: User) -> Response:
            return self.answer

    with pytest.raises(Forbidden):
        await Discovery(client_of(Other(failure(Forbidden.of("no"))))).resources()
    with pytest.raises(NotKubernetes):
        await Discovery(client_of(Other(Response(200, b"<html>")))).resources()
