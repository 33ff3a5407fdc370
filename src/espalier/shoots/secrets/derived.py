"""Secrets that each seed derives from the persisted ones (`DeploySecrets` of the proposal); `peers.py` has the rest.

They are never in the ShootState. One is derived again if it is missing, close to its expiry, or signed by another
authority than the persisted one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.connection.pki import Authority, KeyPair
from espalier.shoots.secrets import names
from espalier.shoots.secrets.persisted import Data, InvalidSecret, authority_of, pair_data
from espalier.shoots.secrets.validity import DAYS, is_fresh, is_pair


@dataclass(frozen=True)
class _Certificate:
    """A certificate of the seed: its purpose, and the authority that signs it."""

    ca: str
    issue: Callable[[Authority, str, datetime], KeyPair]
    kubeconfig: bool = False


def _client(common_name: str, *groups: str) -> Callable[[Authority, str, datetime], KeyPair]:
    return lambda ca, _namespace, now: ca.issue_client(common_name, groups=groups, now=now, days=DAYS)


def _server(name: str, *services: str) -> Callable[[Authority, str, datetime], KeyPair]:
    def issue(ca: Authority, namespace: str, now: datetime) -> KeyPair:
        dns_names = [
            "localhost",
            *(f"{service}{rest}" for service in services for rest in ("", f".{namespace}", f".{namespace}.svc")),
        ]
        return ca.issue_server(name, names=dns_names, now=now, days=DAYS)

    return issue


def _controller(name: str) -> _Certificate:
    return _Certificate(names.CA, _client(f"system:{name}"), kubeconfig=True)


CERTIFICATES: Mapping[str, _Certificate] = {
    names.KUBELET_CLIENT: _Certificate(names.CA_KUBELET, _client("kube-apiserver", "system:masters")),
    names.METRICS_SERVER: _Certificate(names.CA_METRICS_SERVER, _server("metrics-server", "metrics-server")),
    "kube-controller-manager": _controller("kube-controller-manager"),
    "kube-scheduler": _controller("kube-scheduler"),
    "machine-controller-manager": _controller("machine-controller-manager"),
    "cluster-autoscaler": _controller("cluster-autoscaler"),
    "gardenlet": _Certificate(names.CA, _client("gardener.cloud:gardenlet", "system:masters"), kubeconfig=True),
    names.ADMIN_KUBECONFIG: _Certificate(names.CA, _client("admin", "system:masters"), kubeconfig=True),
}
"""By the name of the secret."""


def outdated(
    persisted: Mapping[str, Data], present: Mapping[str, Data], *, namespace: str, now: datetime
) -> tuple[str, ...]:
    """The names of derived secrets that are outdated or were edited. Raises `InvalidSecret` if a persisted
    one is no authority."""
    authorities = {name: _authority(persisted, name) for name in sorted({item.ca for item in CERTIFICATES.values()})}
    return tuple(
        name
        for name, certificate in CERTIFICATES.items()
        if not _is_current(name, present.get(name, {}), authorities[certificate.ca], namespace, now)
    )


def _is_current(name: str, data: Data, ca: Authority, namespace: str, now: datetime) -> bool:
    if not is_fresh(data, f"{name}.crt", ca.certificate, now):
        return False
    pair = KeyPair(data[f"{name}.crt"], data.get(f"{name}.key", b""))
    return is_pair(pair.certificate, pair.key) and data.items() >= _content(name, pair, ca, namespace).items()


def derive(
    persisted: Mapping[str, Data],
    present: Mapping[str, Data],
    *,
    namespace: str,
    now: datetime,
    rng: random.Random | None = None,
) -> dict[str, Data]:
    """Return the outdated secrets, derived again. Raises `InvalidSecret` if a persisted one is no authority."""
    derived: dict[str, Data] = {}
    for name in outdated(persisted, present, namespace=namespace, now=now):
        certificate = CERTIFICATES[name]
        ca = _authority(persisted, certificate.ca, rng)
        derived[name] = _content(name, certificate.issue(ca, namespace, now), ca, namespace)
    return derived


def _content(name: str, pair: KeyPair, ca: Authority, namespace: str) -> Data:
    content = pair_data(name, pair, ca.certificate)
    if CERTIFICATES[name].kubeconfig:
        content["kubeconfig"] = _kubeconfig(namespace, name, ca.certificate, pair.certificate, pair.key)
    return content


def _authority(secrets: Mapping[str, Data], name: str, rng: random.Random | None = None) -> Authority:
    """Raises `InvalidSecret`, with the name."""
    try:
        return authority_of(secrets[name], rng)
    except KeyError:
        raise InvalidSecret(f"{name} is missing") from None
    except InvalidSecret as error:
        raise InvalidSecret(f"{name}: {error}") from None


@lru_cache(maxsize=4096)
def _kubeconfig(namespace: str, name: str, authority: bytes, certificate: bytes, key: bytes) -> bytes:
    """Cached, because each reconcile of a shoot compares those that it has."""
    server = f"https://{names.KUBE_APISERVER}.{namespace}.svc:443"
    return Kubeconfig.of_cluster(
        namespace,
        server=server,
        certificate_authority=authority,
        user=name,
        credentials=KeyPair(certificate, key),
    ).to_bytes()
