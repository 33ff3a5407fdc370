"""Paths that machines of a cluster use decide between several matches, whoever made their templates."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from espalier.api.eksa import cluster as eksa
from espalier.api.identity import ClusterIdentity
from espalier.api.meta import ObjectMeta, Tree
from espalier.api.resource import Key
from espalier.clusters.report.checks.configs import Use
from espalier.kube.objects import Object, to_bytes
from espalier.providers.vsphere.checks import controller
from espalier.providers.vsphere.checks.questions import Answers, ObjectType, Question
from espalier.providers.vsphere.cluster_api import VSphereMachineTemplate
from espalier.providers.vsphere.kinds import (
    Resolved,
    VSphereDatacenterConfig,
    VSphereDatacenterConfigSpec,
    VSphereMachineConfig,
    VSphereMachineConfigSpec,
)
from espalier.runtime.caches.snapshot import Snapshot
from espalier.runtime.options import Options
from tests.support.objects.adoption_records import adopted_cluster, adoption_record

GARDEN = Key("team-a", "garden")
USED, OTHER = "/DC0/datastore/a/ssd", "/DC0/datastore/b/ssd"
KIND = VSphereMachineTemplate.resource


def template(labels: dict[str, str]) -> Tree:
    metadata = {"name": "garden-1", "namespace": "eksa-system", "uid": "1", "resourceVersion": "1", "labels": labels}
    spec = {"template": {"spec": {"datastore": USED, "template": "/DC0/vm/ubuntu"}}}
    return {"apiVersion": KIND.api_version, "kind": KIND.kind, "metadata": metadata, "spec": spec}


@pytest.mark.parametrize(
    ("objects", "datastore"),
    [
        ([template(ClusterIdentity.of(GARDEN).labels)], USED),
        ([template({}), adoption_record(GARDEN, (KIND, "garden-1")), adopted_cluster("garden")], USED),
        ([template({}), adoption_record(Key("team-b", "garden"), (KIND, "garden-1")), adopted_cluster("garden")], ""),
        ([template({}), adoption_record(GARDEN, (KIND, "garden-1"))], ""),
        ([template({})], ""),
    ],
    ids=["labelled", "adopted", "of another", "of nobody", "unknown"],
)
def test_template_in_use_decides_between_datastores(objects: list[Tree], datastore: str) -> None:
    caches = Snapshot()
    host = SimpleNamespace(caches=caches, manager=SimpleNamespace(options=Options()))
    check_plan = controller._of_machines(cast(Any, host))
    caches.fill([Object(to_bytes(tree)) for tree in objects])
    cluster = eksa.Cluster(metadata=ObjectMeta(namespace=GARDEN.namespace, name=GARDEN.name))
    config = VSphereMachineConfig(
        metadata=ObjectMeta(namespace=GARDEN.namespace, name="m"),
        spec=msgspec.convert(
            {
                "datastore": "ssd",
                "folder": "",
                "resourcePool": "pool",
                "memoryMiB": 8192,
                "numCPUs": 2,
                "osFamily": "ubuntu",
            },
            VSphereMachineConfigSpec,
        ),
    )
    datacenter = VSphereDatacenterConfig(
        spec=msgspec.convert(
            {"server": "vcenter.example.com", "datacenter": "DC0", "network": "n", "thumbprint": "", "insecure": False},
            VSphereDatacenterConfigSpec,
        )
    )
    planned = check_plan(config, [Use(cluster, datacenter)])
    answers = Answers(paths={Question(ObjectType.DATASTORE, "DC0", "ssd"): (USED, OTHER)})
    resolved = cast(Resolved, cast(Any, planned.evaluate([answers]).status).resolved)
    assert resolved.datastore == datastore
