"""Encryption at rest of a store's objects, by Kubernetes' EncryptionConfiguration.

The format is kube-apiserver's: `k8s:enc:<provider>:v1:<key>:` and then the ciphertext. The first provider of a kind
encrypts, all of them decrypt. To rotate keys, add the new one first, and remove the old one when no object uses it.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Protocol

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC
from cryptography.hazmat.primitives.padding import PKCS7

from espalier.api.text.violations import ManifestError
from espalier.api.trees.yaml_trees import trees

PREFIX = b"k8s:enc:"
_MAX_LABEL = 200
"""Bytes of prefix, provider and key name."""


class EncryptionError(ValueError):
    """The configuration is invalid; the message names the field and the allowed values."""


class CannotDecrypt(ValueError):
    """A stored object can't be decrypted with this configuration."""


class _Key(msgspec.Struct, forbid_unknown_fields=True):
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
    secret: str


class _Keys(msgspec.Struct, forbid_unknown_fields=True):
    keys: Annotated[list[_Key], msgspec.Meta(min_length=1)]


class _Provider(msgspec.Struct, forbid_unknown_fields=True):
    aesgcm: _Keys | None = None
    aescbc: _Keys | None = None
    secretbox: dict[str, Any] | None = None
    identity: dict[str, Any] | None = None
    kms: dict[str, Any] | None = None


class _Resources(msgspec.Struct, forbid_unknown_fields=True):
    resources: Annotated[list[str], msgspec.Meta(min_length=1)]
    providers: Annotated[list[_Provider], msgspec.Meta(min_length=1)]


class _Configuration(msgspec.Struct):
    resources: Annotated[list[_Resources], msgspec.Meta(min_length=1)]
    kind: str = ""
    api_version: str = msgspec.field(default="", name="apiVersion")


class _Transformer(Protocol):
    """One key of one provider. Some providers bind the ciphertext to the object's `path`."""

    label: bytes

    def encrypt(self, plaintext: bytes, path: bytes) -> bytes:
        """The ciphertext of a plaintext."""

    def decrypt(self, text: bytes, path: bytes) -> bytes:
        """The plaintext of a ciphertext. Raises `CannotDecrypt`."""


class Encryption:
    """A valid configuration."""

    def __init__(self, configuration: Mapping[str, Any]) -> None:
        """Raises `EncryptionError`."""
        try:
            parsed = msgspec.convert(configuration, _Configuration)
        except msgspec.ValidationError as error:
            raise EncryptionError(f"the encryption configuration is invalid: {error}") from None
        if parsed.kind != "EncryptionConfiguration":
            message = "found kind {!r}; allowed: EncryptionConfiguration of apiserver.config.k8s.io/v1"
            raise EncryptionError(f"the encryption configuration is invalid: {message.format(parsed.kind)}")
        self._rules = [
            (tuple(rule.resources), tuple(_transformers(place, rule))) for place, rule in enumerate(parsed.resources)
        ]
        self._by_table: dict[str, tuple[_Transformer, ...]] = {}

    @classmethod
    def read(cls, file: Path) -> Encryption:
        """The configuration in a file, as YAML. Raises `EncryptionError`, `OSError`."""
        try:
            (tree,) = trees(file.read_text(), str(file))
        except (ManifestError, UnicodeDecodeError, ValueError) as error:
            raise EncryptionError(f"{file} is not a valid encryption configuration: {error}") from None
        return cls(tree)

    def encrypt(self, table: str, path: bytes, plaintext: bytes) -> bytes:
        """The encrypted form of an object, to be stored."""
        first = self._transformers_for(table)[0]
        return first.label + first.encrypt(plaintext, path)

    def decrypt(self, table: str, path: bytes, stored: bytes) -> bytes:
        """The decrypted form of a stored object. Raises `CannotDecrypt`."""
        for transformer in self._transformers_for(table):
            if stored.startswith(transformer.label) and (transformer.label or not stored.startswith(PREFIX)):
                return transformer.decrypt(stored[len(transformer.label) :], path)
        raise CannotDecrypt(
            f"{path.decode(errors='replace')} is stored {_provider_of(stored)}, but the encryption configuration has "
            "no such provider for it; add it after the first one"
        )

    def is_stale(self, table: str, stored: bytes) -> bool:
        """True if a write would store an object in another form."""
        label = self._transformers_for(table)[0].label
        return not stored.startswith(label) if label else stored.startswith(PREFIX)

    def _transformers_for(self, table: str) -> tuple[_Transformer, ...]:
        transformers = self._by_table.get(table)
        if transformers is None:
            rules = (transformers for names, transformers in self._rules if any(_covers(name, table) for name in names))
            transformers = self._by_table[table] = next(rules, (_Identity(),))
        return transformers


def require_unencrypted(path: bytes, stored: bytes) -> None:
    """Raise `CannotDecrypt` for an object that is encrypted where there is no configuration."""
    if stored.startswith(PREFIX):
        where = path.decode(errors="replace")
        raise CannotDecrypt(
            f"{where} is stored {_provider_of(stored)}; start the server with its encryption configuration"
        )


def _covers(name: str, table: str) -> bool:
    """True if a rule is for a table: `secrets`, `shootstates.core.gardener.cloud`, `*.<group>`, `*.` (core), `*.*`."""
    plural, _, group = name.partition(".")
    if plural != "*":
        return name == table
    return group == "*" or group == table.partition(".")[2]


def _provider_of(stored: bytes) -> str:
    if not stored.startswith(PREFIX):
        return "unencrypted"
    parts = stored[:_MAX_LABEL].split(b":")
    provider, key = (parts[place].decode(errors="replace") if len(parts) > place else "?" for place in (2, 4))
    return f"with provider {provider} and key {key!r}"


def _transformers(place: int, rule: _Resources) -> Iterator[_Transformer]:
    makers: Mapping[str, tuple[Callable[[bytes, bytes], _Transformer], Sequence[int]]] = {
        "aesgcm": (_Gcm, (16, 24, 32)),
        "aescbc": (_Cbc, (16, 24, 32)),
    }
    for number, provider in enumerate(rule.providers):
        field = f"resources[{place}].providers[{number}]"
        named = [name for name in provider.__struct_fields__ if getattr(provider, name) is not None]
        if len(named) != 1:
            raise EncryptionError(f"{field}: found {' and '.join(named) or 'nothing'}; allowed: exactly one provider")
        (name,) = named
        if name in ("kms", "secretbox"):  # a plugin; a cipher that our library does not have
            raise EncryptionError(f"{field}: {name} is not supported; allowed: aesgcm, aescbc, identity")
        if name == "identity":
            yield _Identity()
            continue
        make, sizes = makers[name]
        for index, key in enumerate(getattr(provider, name).keys):
            yield make(_label(name, key.name), _secret(f"{field}.{name}.keys[{index}].secret", key.secret, sizes))


def _label(provider: str, key: str) -> bytes:
    if ":" in key:
        raise EncryptionError(f"the key name {key!r} has a colon, which ends key names in stored data; choose another")
    return PREFIX + f"{provider}:v1:{key}:".encode()


def _secret(field: str, text: str, sizes: Sequence[int]) -> bytes:
    try:
        secret = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise EncryptionError(f"{field}: not base64-encoded") from None
    if len(secret) not in sizes:
        raise EncryptionError(f"{field}: found {len(secret)} bytes; allowed: {', '.join(map(str, sizes))}")
    return secret


class _Identity:
    label = b""

    def encrypt(self, plaintext: bytes, path: bytes) -> bytes:
        return plaintext

    def decrypt(self, text: bytes, path: bytes) -> bytes:
        return text


class _Gcm:
    """AES-GCM with a random nonce. Rotate its keys every 200,000 writes, as Kubernetes recommends."""

    def __init__(self, label: bytes, key: bytes) -> None:
        self.label = label
        self._cipher = AESGCM(key)

    def encrypt(self, plaintext: bytes, path: bytes) -> bytes:
        nonce = os.urandom(12)
        return nonce + self._cipher.encrypt(nonce, plaintext, path)

    def decrypt(self, text: bytes, path: bytes) -> bytes:
        try:
            return self._cipher.decrypt(text[:12], text[12:], path)
        except (InvalidTag, ValueError):
            raise _damaged(path) from None


class _Cbc:
    """AES-CBC, which does not authenticate."""

    def __init__(self, label: bytes, key: bytes) -> None:
        self.label = label
        self._algorithm = AES(key)

    def encrypt(self, plaintext: bytes, path: bytes) -> bytes:
        start = os.urandom(16)
        padding, encryptor = PKCS7(128).padder(), Cipher(self._algorithm, CBC(start)).encryptor()
        return start + encryptor.update(padding.update(plaintext) + padding.finalize()) + encryptor.finalize()

    def decrypt(self, text: bytes, path: bytes) -> bytes:
        try:
            padding, decryptor = PKCS7(128).unpadder(), Cipher(self._algorithm, CBC(text[:16])).decryptor()
            return padding.update(decryptor.update(text[16:]) + decryptor.finalize()) + padding.finalize()
        except ValueError:
            raise _damaged(path) from None


def _damaged(path: bytes) -> CannotDecrypt:
    return CannotDecrypt(
        f"{path.decode(errors='replace')} was encrypted with another key of the same name, or is damaged"
    )
