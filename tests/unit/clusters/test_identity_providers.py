"""Providers of users with which kube-apiserver does not start."""

from __future__ import annotations

from ipaddress import AddressValueError, IPv6Address
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.api.eksa.cluster import ClusterSpec
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.clusters.observe.rules.control_planes import identity
from espalier.clusters.report.validity import problem, standing_problem
from tests.support.objects.observed_clusters import example, scope
from tests.support.providers.connected_examples import COMPANY

PROVIDER = COMPANY["spec"]["issuerUrl"]
LINKED: dict[str, Any] = {"identityProviderRefs": [{"kind": "OIDCConfig", "name": "company"}]}


@pytest.mark.parametrize(
    ("url", "fields"),
    [
        (PROVIDER, {"podIamConfig": {"serviceAccountIssuer": PROVIDER}}),
        ("https://kubernetes.default.svc.cluster.local", {}),
    ],
)
def test_provider_that_issues_own_tokens_is_refused(url: str, fields: dict[str, Any]) -> None:
    observed = scope(*example(**LINKED, **fields), COMPANY | {"spec": COMPANY["spec"] | {"issuerUrl": url}})
    for stopped in (problem(observed), standing_problem(observed)):
        assert stopped is not None
        assert stopped.reason == Reason.CLUSTER_INVALID
        assert stopped.message.startswith("spec.identityProviderRefs: kube-apiserver does not start")
        assert f"found {url}; allowed: a URL that is not an issuer of service account tokens" in stopped.message


@pytest.mark.parametrize("fields", [{}, {"podIamConfig": {"serviceAccountIssuer": "https://tokens.example.com"}}])
def test_other_providers_are_accepted(fields: dict[str, Any]) -> None:
    assert problem(scope(*example(**LINKED, **fields), COMPANY)) is None


def test_issuer_is_free_if_the_cluster_names_another() -> None:
    url = "https://kubernetes.default.svc.cluster.local"
    company = COMPANY | {"spec": COMPANY["spec"] | {"issuerUrl": url}}
    other: dict[str, Any] = {"podIamConfig": {"serviceAccountIssuer": "https://tokens.example.com"}}
    assert problem(scope(*example(**LINKED, **other), company)) is None


def is_accepted(issuer: str) -> bool:
    cluster_spec = msgspec.convert({"podIamConfig": {"serviceAccountIssuer": issuer}}, ClusterSpec)
    return not any(identity.violations(cluster_spec))


@given(st.ip_addresses(v=6))
def test_every_ipv6_address_may_be_host_of_issuer(address: IPv6Address) -> None:
    """But IPv4 ones as IPv6, which CEL's `isIP` does not accept either."""
    for host in (address.compressed, address.exploded):
        assert is_accepted(f"https://[{host}]:8443/a") is (address.ipv4_mapped is None)


@given(st.text("0af:", max_size=24))
def test_invalid_ipv6_address_is_refused(host: str) -> None:
    """Tried with 1.36, for users' and for its own tokens: `https://[1.2.3.4]` is an "invalid IP-literal" for Go."""
    try:
        address = IPv6Address(host)
    except AddressValueError:
        assert not is_accepted(f"https://[{host}]")
    else:
        assert is_accepted(f"https://[{host}]") is (address.ipv4_mapped is None)
