"""The certificate with which this machine reaches a management cluster is renewed from a Secret of that cluster."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest

from espalier.cli.local.environment.renewed_access import NotRenewed, renewed
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.connection.pki import Authority, KeyPair
from espalier.kube.errors import KubeError

NOW = datetime(2026, 6, 1, tzinfo=UTC)
ADMIN, GROUPS = "kubernetes-admin", ["system:masters"]
AUTHORITY = Authority.create("kubernetes", now=NOW - timedelta(days=100), rng=random.Random(1))
STRANGER = Authority.create("kubernetes", now=NOW - timedelta(days=100), rng=random.Random(2))


def client(
    days: float, *, user: str = ADMIN, by: Authority = AUTHORITY, groups: list[str] = GROUPS, since: datetime = NOW
) -> KeyPair:
    return by.issue_client(user, groups=groups, now=since, days=days)


def kubeconfig(credentials: KeyPair, server: str = "https://10.79.0.2:6443") -> bytes:
    return Kubeconfig.of_cluster(
        "mgmt",
        server=server,
        certificate_authority=AUTHORITY.certificate,
        user=f"{ADMIN}-mgmt",
        credentials=credentials,
    ).to_bytes()


PRESENT = kubeconfig(client(100))


def test_newer_certificate_replaces_the_present_alone() -> None:
    """Neither the server nor the authority that are offered are followed."""
    newer = client(300)
    content = renewed(PRESENT, kubeconfig(newer, "https://elsewhere.example:6443"), NOW)
    assert content is not None
    access, present = Kubeconfig.parse(content).context(), Kubeconfig.parse(PRESENT).context()
    assert (access.client_certificate, access.client_key) == (newer.certificate, newer.key)
    assert (access.server, access.certificate_authority) == (present.server, present.certificate_authority)
    assert renewed(content, kubeconfig(newer), NOW) is None


@pytest.mark.parametrize("days", [99, 100])
def test_certificate_that_ends_no_later_is_not_taken(days: float) -> None:
    assert renewed(PRESENT, kubeconfig(client(days)), NOW) is None


@pytest.mark.parametrize(
    ("offered", "says"),
    [
        (kubeconfig(client(300, by=STRANGER)), "not of the cluster's authority"),
        (kubeconfig(client(300, user="eve")), "another user"),
        (kubeconfig(client(300, groups=["system:nodes"])), "another user"),
        (kubeconfig(KeyPair(client(300).certificate, client(300).key)), "not that of its certificate"),
        (kubeconfig(client(300, since=NOW + timedelta(hours=1))), "valid from 2026-06-01 00:55 UTC on"),
        (kubeconfig(KeyPair(b"no certificate", client(300).key)), "can't be used"),
        (kubeconfig(KeyPair(client(300).certificate, b"no key")), "can't be used"),
        (PRESENT + b" " * (64 << 10), "allowed are 65536"),
        (b"", "no context"),
        (b"[", "cannot be read"),
        (
            Kubeconfig.of_cluster(
                "mgmt", server="https://a", certificate_authority=b"a", user="a", credentials="token"
            ).to_bytes(),
            "no client certificate",
        ),
        (
            Kubeconfig.of_cluster(
                "mgmt",
                server="https://a",
                certificate_authority=b"a",
                user="a",
                credentials={"apiVersion": "client.authentication.k8s.io/v1", "command": "true"},
            ).to_bytes(),
            "",
        ),
    ],
    ids=[
        "another authority",
        "another user",
        "other groups",
        "key of another",
        "not valid yet",
        "no certificate",
        "no key",
        "large",
        "empty",
        "no YAML",
        "token",
        "program",
    ],
)
def test_what_others_may_write_is_refused(offered: bytes, says: str) -> None:
    with pytest.raises((NotRenewed, KubeError)) as refused:
        renewed(PRESENT, offered, NOW)
    assert says in str(refused.value)
