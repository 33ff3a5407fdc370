"""Secrets that are generated once in the life of a shoot (`GenerateSecretState` of the proposal).

They are in the ShootState before the first of them appears in a seed, so a crash in between generates nothing twice.
"""

from __future__ import annotations

import random
import secrets
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TypeAlias

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from espalier.kube.connection.pki import Authority, KeyPair
from espalier.shoots.secrets import names

Data: TypeAlias = dict[str, bytes]
"""Content of one secret, by key."""

_P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
SERVER_DAYS = 3650
"""Validity of the persisted certificates: as long as that of their authorities."""


class InvalidSecret(ValueError):
    """A persisted secret is invalid."""


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
    generated: dict[str, Data] = {}
    for name in names.PERSISTED:  # authorities come before what they sign
        if name not in present:
            generated[name] = _GENERATORS[name](_Inputs({**present, **generated}, namespace, extra_names, now, rng))
    return {name: generated[name] for name in names.PERSISTED if name in generated}


def decoded(data: Mapping[str, str]) -> Data | None:
    """The values of a persisted secret; None if one is not base64, as somebody may write it past admission."""
    try:
        return {key: b64decode(value, validate=True) for key, value in data.items()}
    except ValueError:
        return None


def authority_of(data: Data, rng: random.Random | None = None) -> Authority:
    """The authority in a secret. Raises `InvalidSecret`."""
    try:
        return Authority.load(data["ca.crt"], data["ca.key"], rng)
    except (KeyError, ValueError, TypeError) as error:
        raise InvalidSecret(f"ca.crt and ca.key are not a matching pair: {error!r}") from error


class _Inputs:
    """The inputs of a generator: the secrets that exist, names, time and randomness."""

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
        return ec.derive_private_key(self.rng.randrange(1, _P256_ORDER), ec.SECP256R1())


def _ca(common_name: str) -> Callable[[_Inputs], Data]:
    def make(inputs: _Inputs) -> Data:
        authority = Authority.create(common_name, now=inputs.now, rng=inputs.rng)
        return {"ca.crt": authority.certificate, "ca.key": authority.key}

    return make


def _static_token(inputs: _Inputs) -> Data:
    token = inputs.random(48).hex()
    return {"static_tokens.csv": f"{token},system:cluster-health,system:cluster-health\n".encode()}


def _basic_auth(inputs: _Inputs) -> Data:
    return {"basic_auth.csv": f"{inputs.random(24).hex()},admin,admin,system:masters\n".encode()}


def _encryption(inputs: _Inputs) -> Data:
    key = b64encode(inputs.random(32)).decode()
    text = (
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n"
        f"  providers:\n  - aescbc:\n      keys:\n      - name: key1\n        secret: {key}\n  - identity: {{}}\n"
    )
    return {"encryption-configuration.yaml": text.encode()}


def _aggregator(inputs: _Inputs) -> Data:
    authority = inputs.authority(names.CA_FRONT_PROXY)
    return pair_data(
        names.KUBE_AGGREGATOR,
        authority.issue_client("system:kube-aggregator", now=inputs.now, days=SERVER_DAYS),
        authority.certificate,
    )


def _server(inputs: _Inputs) -> Data:
    authority = inputs.authority(names.CA)
    dns_names = (*names.server_names(inputs.namespace), *inputs.extra_names)
    pair = authority.issue_server(names.KUBE_APISERVER, names=dns_names, now=inputs.now, days=SERVER_DAYS)
    return pair_data(names.KUBE_APISERVER, pair, authority.certificate)


def pair_data(name: str, pair: KeyPair, ca: bytes) -> Data:
    """The content of a secret with a certificate, its key, and the authority that signed it."""
    return {f"{name}.crt": pair.certificate, f"{name}.key": pair.key, "ca.crt": ca}


def _service_account_key(inputs: _Inputs) -> Data:
    text = inputs.key().private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    return {"id_rsa": text}  # the key's name in the proposal and in Gardener, whatever its algorithm


def _ssh_keypair(inputs: _Inputs) -> Data:
    key = inputs.key()
    return {
        "id_rsa": key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()),
        "id_rsa.pub": key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH) + b"\n",
    }


_GENERATORS: Mapping[str, Callable[[_Inputs], Data]] = {
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
