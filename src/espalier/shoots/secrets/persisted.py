"""Secrets that are generated once in the life of a shoot (`GenerateSecretState` of the proposal).

They are in the ShootState before the first of them appears in a seed, so a crash in between generates nothing twice.
"""

from __future__ import annotations

import random
import secrets
from base64 import b64encode
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TypeAlias

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from espalier.kube.pki import Authority, KeyPair
from espalier.shoots.secrets import names

Data: TypeAlias = dict[str, bytes]
"""Content of one secret, by key."""

_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
SERVER_DAYS = 3650
"""Validity of the persisted certificates: as long as that of their authorities."""


class InvalidSecret(ValueError):
    """A persisted secret is invalid; the message names it."""


def generate(
    present: Mapping[str, Data],
    *,
    namespace: str,
    extra_names: tuple[str, ...] = (),
    now: datetime,
    rng: random.Random | None = None,
) -> dict[str, Data]:
    """Generate the persisted secrets that are missing. Existing ones are never generated again.

    `extra_names` are DNS names of the API server besides those of the seed's Service. With `rng`, everything is
    generated from it: for simulation only.
    """
    made: dict[str, Data] = {}
    for name in names.PERSISTED:  # authorities come before what they sign
        if name not in present:
            made[name] = _MAKERS[name](_Made({**present, **made}, namespace, extra_names, now, rng))
    return {name: made[name] for name in names.PERSISTED if name in made}


def authority_of(data: Data, rng: random.Random | None = None) -> Authority:
    """The authority in a secret. Raises `InvalidSecret`."""
    try:
        return Authority.load(data["ca.crt"], data["ca.key"], rng)
    except (KeyError, ValueError, TypeError) as error:
        raise InvalidSecret(f"ca.crt and ca.key are not a matching pair: {error!r}") from error


class _Made:
    """The recipe of a secret."""

    def __init__(
        self,
        present: Mapping[str, Data],
        namespace: str,
        extra_names: tuple[str, ...],
        now: datetime,
        rng: random.Random | None,
    ) -> None:
        self.namespace, self.extra_names, self.now, self.rng = namespace, extra_names, now, rng
        self._present = present

    def authority(self, name: str) -> Authority:
        return authority_of(self._present[name], self.rng)

    def random(self, count: int) -> bytes:
        return secrets.token_bytes(count) if self.rng is None else self.rng.randbytes(count)

    def key(self) -> ec.EllipticCurvePrivateKey:
        if self.rng is None:
            return ec.generate_private_key(ec.SECP256R1())
        return ec.derive_private_key(self.rng.randrange(1, _ORDER), ec.SECP256R1())


def _ca(common_name: str) -> Callable[[_Made], Data]:
    def make(made: _Made) -> Data:
        authority = Authority.create(common_name, now=made.now, rng=made.rng)
        return {"ca.crt": authority.certificate, "ca.key": authority.key}

    return make


def _static_token(made: _Made) -> Data:
    token = made.random(48).hex()
    return {"static_tokens.csv": f"{token},system:cluster-health,system:cluster-health\n".encode()}


def _basic_auth(made: _Made) -> Data:
    return {"basic_auth.csv": f"{made.random(24).hex()},admin,admin,system:masters\n".encode()}


def _encryption(made: _Made) -> Data:
    key = b64encode(made.random(32)).decode()
    text = (
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n"
        f"  providers:\n  - aescbc:\n      keys:\n      - name: key1\n        secret: {key}\n  - identity: {{}}\n"
    )
    return {"encryption-configuration.yaml": text.encode()}


def _aggregator(made: _Made) -> Data:
    authority = made.authority(names.CA_FRONT_PROXY)
    return pair_data(
        names.KUBE_AGGREGATOR,
        authority.issue_client("system:kube-aggregator", now=made.now, days=SERVER_DAYS),
        authority.certificate,
    )


def _server(made: _Made) -> Data:
    authority = made.authority(names.CA)
    reached = (*names.server_names(made.namespace), *made.extra_names)
    pair = authority.issue_server(names.KUBE_APISERVER, names=reached, now=made.now, days=SERVER_DAYS)
    return pair_data(names.KUBE_APISERVER, pair, authority.certificate)


def pair_data(name: str, pair: KeyPair, ca: bytes) -> Data:
    """The content of a secret with a certificate, its key, and the authority that signed it."""
    return {f"{name}.crt": pair.certificate, f"{name}.key": pair.key, "ca.crt": ca}


def _service_account_key(made: _Made) -> Data:
    text = made.key().private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    return {"id_rsa": text}  # the name that the proposal and Gardener have for it, whatever the kind of key


def _ssh_keypair(made: _Made) -> Data:
    key = made.key()
    return {
        "id_rsa": key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()),
        "id_rsa.pub": key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH) + b"\n",
    }


_MAKERS: Mapping[str, Callable[[_Made], Data]] = {
    names.CA: _ca("kubernetes"),
    names.CA_FRONT_PROXY: _ca("front-proxy"),
    names.STATIC_TOKEN: _static_token,
    names.CA_KUBELET: _ca("kubelet"),
    names.CA_METRICS_SERVER: _ca("metrics-server"),
    names.ETCD_ENCRYPTION: _encryption,
    names.KUBE_AGGREGATOR: _aggregator,
    names.BASIC_AUTH: _basic_auth,
    names.KUBE_APISERVER: _server,
    names.SERVICE_ACCOUNT_KEY: _service_account_key,
    names.SSH_KEYPAIR: _ssh_keypair,
}
