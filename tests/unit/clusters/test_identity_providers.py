"""Providers of users with which kube-apiserver does not start."""

from __future__ import annotations

from typing import Any

import pytest

from espalier.clusters import names
from espalier.clusters.validity import problem, standing_problem
from tests.unit.clusters.seen import example, scope
from tests.unit.clusters.test_story import COMPANY

PROVIDER = COMPANY["spec"]["issuerUrl"]
LINKED: dict[str, Any] = {"identityProviderRefs": [{"kind": "OIDCConfig", "name": "company"}]}


@pytest.mark.parametrize(
    ("url", "fields"),
    [
        (PROVIDER, {"podIamConfig": {"serviceAccountIssuer": PROVIDER}}),
        ("https://kubernetes.default.svc.cluster.local", {}),
    ],
)
def test_a_linked_provider_that_is_the_issuer_of_service_account_tokens_stops_the_cluster_before_anything_is_written(
    url: str, fields: dict[str, Any]
) -> None:
    found = scope(*example(**LINKED, **fields), COMPANY | {"spec": COMPANY["spec"] | {"issuerUrl": url}})
    for stopped in (problem(found), standing_problem(found)):
        assert stopped is not None
        assert stopped.reason == names.CLUSTER_INVALID
        assert stopped.message.startswith("spec.identityProviderRefs: kube-apiserver does not start")
        assert f"found {url}; allowed: a URL that is not an issuer of service account tokens" in stopped.message


@pytest.mark.parametrize("fields", [{}, {"podIamConfig": {"serviceAccountIssuer": "https://tokens.example.com"}}])
def test_other_providers_are_accepted(fields: dict[str, Any]) -> None:
    assert problem(scope(*example(**LINKED, **fields), COMPANY)) is None


def test_the_issuer_of_kubeadm_is_free_where_the_cluster_names_another_one() -> None:
    url = "https://kubernetes.default.svc.cluster.local"
    company = COMPANY | {"spec": COMPANY["spec"] | {"issuerUrl": url}}
    other: dict[str, Any] = {"podIamConfig": {"serviceAccountIssuer": "https://tokens.example.com"}}
    assert problem(scope(*example(**LINKED, **other), company)) is None
