"""The Secrets that a control plane needs before its first machine: CAs, service account key, kubeconfig."""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from functools import lru_cache

import msgspec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from espalier.api.core import SECRET, Secret
from espalier.api.meta import OwnerReference, Tree
from espalier.api.resource import Key
from espalier.clusterapi import names
from espalier.clusterapi.objects import new_object
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.connection.kubeconfig_entries import KubeconfigError
from espalier.kube.connection.pki import Authority, KeyPair
from espalier.kube.objects import Object
from espalier.simulator.capi.inventory import Scheme

AUTHORITIES = {"ca": "kubernetes", "etcd": "etcd-ca", "proxy": "front-proxy-ca"}
"""Common names of the CAs, by the suffix of their Secret."""

RENEW_BEFORE = timedelta(days=180)
"""The kubeconfig's client certificate (valid for a year) is renewed when it is valid for less than this."""


def secret_name(cluster: str, purpose: str) -> str:
    """The name of a Secret of a cluster; `purpose` is `ca`, `etcd`, `proxy`, `sa` or `kubeconfig`."""
    return f"{cluster}-{purpose}"


async def find_secret(scheme: Scheme, cluster: Key, purpose: str) -> Object | None:
    """A Secret of a cluster. One without the label by which Secrets are watched is read directly, as by Cluster API."""
    key = Key(cluster.namespace, secret_name(cluster.name, purpose))
    return scheme.inventory.secrets.get(key) or await scheme.writer.read(SECRET, key)


def unavailable_message(purposes: Sequence[str]) -> str:
    """Cluster API's message about missing certificates."""
    if len(purposes) == 1:
        return f"Cluster certificate for {purposes[0]} is not available, please check cluster certificate secrets"
    return f"Cluster certificates for {', '.join(purposes)} are not available, please check cluster certificate secrets"


def authority_of(secret: Secret, keys: random.Random | None = None) -> Authority:
    """The CA in a Secret; it issues with `keys`. Raises `ValueError` when the Secret has none."""
    try:
        return Authority.load(secret.data["tls.crt"], secret.data["tls.key"], keys)
    except KeyError as missing:
        raise ValueError(f"Secret {secret.metadata.name} has no {missing}") from None


def certificate_secrets(
    cluster: Key, owner: OwnerReference, *, now: datetime, keys: random.Random | None, existing: set[str]
) -> Iterator[Tree]:
    """The Secrets with certificates and keys whose names are not among the `existing`."""
    for purpose, common_name in AUTHORITIES.items():
        if secret_name(cluster.name, purpose) not in existing:
            pair: KeyPair = Authority.create(common_name, now=now, rng=keys)
            yield _secret(cluster, purpose, owner, {"tls.crt": pair.certificate, "tls.key": pair.key})
    if secret_name(cluster.name, "sa") not in existing:
        pair = Authority.create("service-accounts", now=now, rng=keys)
        public = pair.x509.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        yield _secret(cluster, "sa", owner, {"tls.crt": public, "tls.key": pair.key})


def kubeconfig_secret(
    cluster: Key, endpoint: str, authority: Authority, owner: OwnerReference, *, now: datetime
) -> Tree:
    """The Secret with an administrator's kubeconfig for the cluster."""
    client = authority.issue_client("kubernetes-admin", groups=("system:masters",), now=now)
    kubeconfig = Kubeconfig.of_cluster(
        cluster.name,
        server=endpoint,
        certificate_authority=authority.certificate,
        user=f"{cluster.name}-admin",
        credentials=client,
    )
    return _secret(cluster, "kubeconfig", owner, {"value": kubeconfig.to_bytes()})


def needs_renewal(kubeconfig: bytes, endpoint: str, now: datetime) -> bool:
    """True if the client certificate of a kubeconfig expires soon, or its server is not `endpoint`.

    False for a kubeconfig of the user, one without a client certificate.
    """
    server_and_expiry = _server_and_expiry(kubeconfig)
    if server_and_expiry is None:
        return False
    server, expiry = server_and_expiry
    return server != endpoint or expiry - now < RENEW_BEFORE


@lru_cache(maxsize=4096)
def _server_and_expiry(kubeconfig: bytes) -> tuple[str, datetime] | None:
    """The server of a kubeconfig and the expiry of its client certificate; None without one, or if it is invalid.

    Cached: called in every reconcile of a control plane, and YAML and certificates are slow to parse.
    """
    try:
        access = Kubeconfig.parse(kubeconfig).context()
    except KubeconfigError:
        return None
    if access.client_certificate is None:
        return None
    return access.server, KeyPair(access.client_certificate, b"").not_after


def _secret(cluster: Key, purpose: str, owner: OwnerReference, data: dict[str, bytes]) -> Tree:
    metadata = {
        "name": secret_name(cluster.name, purpose),
        "namespace": cluster.namespace,
        "labels": {names.CLUSTER: cluster.name},
        "ownerReferences": [msgspec.to_builtins(owner)],
    }
    encoded = {name: base64.b64encode(value).decode() for name, value in data.items()}
    return new_object(SECRET, metadata, type=names.CLUSTER_SECRET, data=encoded)
