"""The API server's answers about an AWSIamConfig: as EKS Anywhere, and what can be changed later."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from espalier.api.eksa.identity_providers import AWSIamConfig
from espalier.api.meta import Tree
from tests.support.providers.field_sweep import refusal_of_last

IAM: Tree = {"awsRegion": "us-west-2", "backendMode": ["EKSConfigMap"]}
ROLE, USER = ({f"{item}ARN": f"arn:aws:iam::1:{item}/a", "username": "ann"} for item in ("role", "user"))


def refusal(*specs: Tree) -> str:
    """Why the last one of these is refused, which are applied one after the other; empty if it is not."""
    return asyncio.run(refusal_of_last(AWSIamConfig, specs))


@pytest.mark.parametrize("more", [{"mapRoles": [ROLE]}, {"mapUsers": [USER, USER]}, {"partition": ""}])
def test_values_accepted_by_eks_anywhere_are_accepted(more: dict[str, Any]) -> None:
    assert refusal(IAM | more) == ""


@pytest.mark.parametrize(
    "more",
    [
        *({"mapRoles": [ROLE, ROLE | {field: ""}]} for field in ROLE),
        *({"mapUsers": [USER | {field: ""}]} for field in USER),
    ],
)
def test_a_mapping_that_maps_nobody_is_refused(more: dict[str, Any]) -> None:
    (field,) = more
    assert f"spec.{field}: Invalid value: a mapping lacks its ARN or its username" in refusal(IAM | more)


@pytest.mark.parametrize(("field", "entry", "arn"), [("mapRoles", ROLE, "roleARN"), ("mapUsers", USER, "userARN")])
def test_a_name_instead_of_an_arn_is_refused(field: str, entry: Tree, arn: str) -> None:
    message = refusal(IAM | {field: [entry, entry | {arn: "admin"}]})
    assert f"spec.{field}: Invalid value: not the ARN of a role or a user" in message
    assert f"found admin; allowed: {arn} such as arn:aws:iam::" in message


def test_missing_partition_is_the_default() -> None:
    assert refusal(IAM, IAM | {"partition": "aws"}, IAM | {"partition": ""}, IAM) == ""
    assert "spec.partition: Invalid value: it can't be changed" in refusal(IAM, IAM | {"partition": "aws-cn"})
