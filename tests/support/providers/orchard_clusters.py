"""Clusters on the provider of tests, and the objects that they link."""

from __future__ import annotations

import base64
from collections.abc import Sequence

import msgspec

from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.clusters.observe.observe import ClusterObserver
from espalier.clusters.observe.scope import ClusterAPIObjects, Scope
from espalier.clusters.plan import plan
from tests.support.objects.observed_clusters import NAMESPACE, applied, example, observer
from tests.support.providers.orchard import ORCHARD, OrchardDatacenterConfig, OrchardMachineConfig


def linked(namespace: str = NAMESPACE, name: str = "trees", domains: Sequence[Tree] = ()) -> list[Tree]:
    """All that the Clusters of a namespace link."""

    def of(api_version: str, kind: str, name: str, namespace: str, **content: object) -> Tree:
        metadata = {"name": name, "namespace": namespace, "uid": f"{namespace}/{kind}/{name}", "resourceVersion": "3"}
        return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}

    spec = {"moreMountsRef": "mounts", "credentialsRef": "credentials", "domains": list(domains)}
    password = base64.b64encode(b"rose").decode()
    eksa = OrchardDatacenterConfig.resource.api_version
    return [
        of(eksa, "OrchardDatacenterConfig", name, namespace, spec=spec),
        of(eksa, "OrchardMachineConfig", "plane", namespace, spec={"users": ["ann"]}),
        of("v1", "Secret", "credentials", "eksa-system", data={"password": password}),
        of("v1", "ConfigMap", "mounts", "eksa-system", data={"paths": "/srv"}),
        of("v1", "ConfigMap", "management-cluster", "eksa-system", data={"namespace": "default", "name": "laptop"}),
    ]


def cluster(
    name: str, namespace: str = NAMESPACE, made: str = "2026-01-01T00:00:00Z", datacenter: str = "trees"
) -> Tree:
    config = {"kind": OrchardMachineConfig.resource.kind, "name": "plane"}
    tree = example(
        datacenterRef={"kind": OrchardDatacenterConfig.resource.kind, "name": datacenter},
        controlPlaneConfiguration={"count": 1, "machineGroupRef": config},
        workerNodeGroupConfigurations=[{"name": "md-0", "count": 1, "machineGroupRef": config}],
    )[0]
    tree["metadata"] |= {"name": name, "namespace": namespace, "uid": f"{namespace}/{name}", "creationTimestamp": made}
    tree["spec"]["managementCluster"] = {"name": "laptop"}
    return tree


def see(*trees: Tree) -> ClusterObserver:
    return observer(*trees, providers=ORCHARD)


def scope_of(seen: ClusterObserver, name: str, namespace: str = NAMESPACE) -> Scope:
    scope = seen.scope(Key(namespace, name))
    assert scope is not None
    return scope


def made(scope: Scope, present: ClusterAPIObjects | None = None) -> list[Tree]:
    """Everything that is made of a Cluster, as it is stored."""
    assert scope.render_input is not None
    wanted = plan.control_plane(scope.render_input, present or ClusterAPIObjects())
    return [applied(msgspec.to_builtins(item)) for item in wanted]
