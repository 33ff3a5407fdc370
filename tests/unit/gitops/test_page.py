"""The page for operators, docs/gitops.md: its numbers, and its expressions in CEL's own library."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from espalier.api.definitions.crd import crd_of
from espalier.api.definitions.structural import Schema
from espalier.api.eksa.cluster import Cluster
from espalier.api.kinds import KubeObject
from espalier.api.meta import Tree
from espalier.providers.kinds import EKSA_KINDS

PAGE = (Path(__file__).parents[3] / "docs" / "gitops.md").read_text()
NOT_NAMED = ("Bundles", "EKSARelease", "Release", "ControlPlaneUpgrade", "MachineDeploymentUpgrade", "NodeUpgrade")
"""Kinds that no Cluster of Git names, or that only managers write."""


def schemas(schema: Schema) -> Iterator[Schema]:
    yield schema
    for inner in (*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")):
        if isinstance(inner, dict):
            yield from schemas(inner)


def rules(kind: type[KubeObject]) -> int:
    (version,) = crd_of(kind)["spec"]["versions"]
    return sum(
        len(schema.get("x-kubernetes-validations", ())) for schema in schemas(version["schema"]["openAPIV3Schema"])
    )


def test_the_page_counts_the_rules_that_answer_422() -> None:
    assert f"the {rules(Cluster)} rules of Clusters" in PAGE
    linked = [kind for kind in EKSA_KINDS if kind is not Cluster and kind.resource.kind not in NOT_NAMED]
    assert f"their definitions alone ({sum(map(rules, linked))} rules" in PAGE


def expressions() -> dict[str, str]:
    (block,) = (
        match for match in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL) if match.startswith("healthCheckExprs")
    )
    (item,) = yaml.safe_load(block)["healthCheckExprs"]
    assert (item["apiVersion"], item["kind"]) == (Cluster.resource.api_version, Cluster.resource.kind)
    return {name: item[name] for name in ("current", "inProgress", "failed")}


def evaluated(text: str, conditions: list[Tree]) -> bool:
    from cel_expr_python import cel

    environment = cel.NewEnv(variables={"status": cel.Type.DYN, "metadata": cel.Type.DYN})
    tree: dict[str, Any] = {"metadata": {"generation": 2}, "status": {"conditions": conditions}}
    return bool(environment.compile(text).eval(environment.Activation(tree)).value())


@pytest.mark.parametrize(
    ("type_", "status", "expected"),
    [
        ("Ready", "True", {"current"}),
        ("Ready", "False", set()),
        ("Reconciling", "True", {"inProgress"}),
        ("Stalled", "True", {"failed"}),
    ],
)
def test_expressions_judge_by_conditions(type_: str, status: str, expected: set[str]) -> None:
    for generation, wanted in ((2, expected), (1, set())):
        conditions = [{"type": type_, "status": status, "observedGeneration": generation}]
        assert {name for name, text in expressions().items() if evaluated(text, conditions)} == wanted
