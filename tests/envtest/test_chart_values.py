"""The schema of the chart refuses the pods that an API server refuses, and no others."""

from __future__ import annotations

import json

import jsonschema_rs
import pytest
import yaml

from espalier.api.core import DEPLOYMENT
from espalier.api.meta import Tree
from espalier.cli.install import chart_values, manifests
from espalier.kube.errors import BadRequest, Invalid
from tests.support.environments.control_plane import ControlPlane

pytestmark = [pytest.mark.envtest, pytest.mark.asyncio(loop_scope="session")]

REQUIRED, PREFERRED = (f"{word}DuringSchedulingIgnoredDuringExecution" for word in ("required", "preferred"))
HOST = {"topologyKey": "kubernetes.io/hostname"}


def toleration(**fields: object) -> Tree:
    return {"tolerations": [fields]}


def nodes(**selected: object) -> Tree:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [selected]}]}}}}


def named_nodes(**selected: object) -> Tree:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchFields": [selected]}]}}}}


def pods(**fields: object) -> Tree:
    return {"affinity": {"podAntiAffinity": {REQUIRED: [fields]}}}


def weighted(weight: int) -> Tree:
    return {"affinity": {"podAffinity": {PREFERRED: [{"weight": weight, "podAffinityTerm": HOST}]}}}


def limits(**amounts: object) -> Tree:
    return {"resources": {"limits": amounts}}


CASES: list[Tree] = [
    toleration(operator="Exists"),
    toleration(key="a", value="b", effect="NoSchedule"),
    toleration(key="a", value="", effect=""),
    toleration(key="a", effect="NoExecute", tolerationSeconds=-1),
    toleration(key="a", effect="X"),
    toleration(key="a", operator="X"),
    toleration(key="a b", operator="Exists"),
    toleration(key="a", value="b c"),
    toleration(key="a", operator="Exists", value="b"),
    toleration(value="b"),
    toleration(key="", operator="Equal"),
    toleration(key="a", effect="NoSchedule", tolerationSeconds=3),
    toleration(key="a", tolerationSeconds=3),
    nodes(key="a", operator="In", values=["b", ""]),
    nodes(key="a", operator="In", values=[]),
    nodes(key="a", operator="NotIn"),
    nodes(key="a", operator="Exists"),
    nodes(key="a", operator="DoesNotExist", values=["b"]),
    nodes(key="a", operator="Gt", values=["-3"]),
    nodes(key="a", operator="Lt", values=["1", "2"]),
    nodes(key="a", operator="X"),
    nodes(key="a b", operator="Exists"),
    named_nodes(key="metadata.name", operator="In", values=["a"]),
    named_nodes(key="metadata.name", operator="In", values=["a", "b"]),
    named_nodes(key="metadata.name", operator="Exists"),
    named_nodes(key="metadata.uid", operator="In", values=["a"]),
    {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}}}},
    {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{}]}}}},
    {"affinity": {"nodeAffinity": 1}},
    {"affinity": {"nodeAffinity": {}, "podAffinity": {REQUIRED: []}}},
    pods(**HOST),
    pods(**HOST, labelSelector={"matchLabels": {"a": "b"}}, matchLabelKeys=["c"], namespaceSelector={}),
    pods(**HOST, labelSelector={"matchExpressions": [{"key": "a", "operator": "In"}]}),
    pods(**HOST, labelSelector={"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}),
    pods(**HOST, namespaces=["A_"]),
    pods(topologyKey=""),
    pods(labelSelector={}),
    weighted(1),
    weighted(100),
    weighted(0),
    weighted(101),
    {"priorityClassName": "a.b"},
    {"priorityClassName": "A_"},
    {"nodeSelector": {"example.com/a": "b"}},
    {"nodeSelector": {"a b": "c"}},
    {"nodeSelector": {"a": "b c"}},
    limits(cpu="1e2"),
    limits(cpu=0.5),
    limits(cpu=".5"),
    limits(cpu="-1"),
    limits(cpu="1 m"),
    limits(foo="1"),
]


@pytest.mark.parametrize("part", CASES, ids=json.dumps)
async def test_the_schema_and_an_api_server_agree(part: Tree, control_plane: ControlPlane) -> None:
    *_, deployed = manifests.deployed("registry.example.com/espalier:v1")
    deployed["metadata"]["namespace"] = "default"
    pod = deployed["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    (container if "resources" in part else pod).update(part)
    values = yaml.safe_load(chart_values.values_yaml()) | part
    async with control_plane.connected() as client:
        try:
            await client.create(DEPLOYMENT, deployed, dry_run=True)
        except (BadRequest, Invalid) as refused:
            complaint = str(refused)
        else:
            complaint = ""
    assert jsonschema_rs.is_valid(json.loads(chart_values.schema()), values) == (not complaint), complaint
