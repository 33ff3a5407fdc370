"""Client certificates of a cluster's own authority, by the API of CertificateSigningRequests.

Kubernetes has no other way to give a person or program an identity of its own that ends by itself: the cluster's
authority signs, and nobody who asks sees its key. A certificate can't be revoked, so its validity is short. It can't
be for group `system:masters`: the API server refuses that for this signer.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from contextlib import aclosing, suppress
from typing import Any

import msgspec
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from espalier.api.core import CERTIFICATE_SIGNING_REQUEST, CLIENT_SIGNER, LEAST_VALIDITY
from espalier.api.meta import Tree
from espalier.api.text.printable import in_one_line
from espalier.kube.client import Client, PatchType
from espalier.kube.connection.pki import KeyPair, new_request
from espalier.kube.errors import KubeError, NotFound, NotIssued
from espalier.kube.objects import Object

USAGES = ("client auth", "digital signature")
_LARGEST = 64 * 1024
"""Bytes of a certificate that are read: what answers may be hostile."""
_LONGEST_MESSAGE = 200
_PAUSE = 0.5
"""Seconds between two watches."""


class _Condition(msgspec.Struct):
    type: str = ""
    message: str = ""


class _Status(msgspec.Struct):
    certificate: str = ""
    conditions: list[_Condition] = []


class _Request(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


async def issue(
    client: Client, user: str, groups: Sequence[str] = (), *, seconds: float, patience: float = 30.0
) -> KeyPair:
    """A new client certificate for a user and groups, valid for `seconds` from now, requested and approved.

    `client` must be allowed to create and delete CertificateSigningRequests, to approve them, and to approve for
    signer `kubernetes.io/kube-apiserver-client`. The request is deleted afterwards, also when this is cancelled.

    Raises `NotIssued` when the cluster's kube-controller-manager does not sign within `patience` seconds, or refuses;
    `KubeError` for what the API server refuses.
    """
    pair = new_request(user, groups)
    created = await client.create(CERTIFICATE_SIGNING_REQUEST, _body(pair.certificate, seconds))
    try:
        await client.patch(
            CERTIFICATE_SIGNING_REQUEST,
            created.name,
            patch={"status": {"conditions": [_APPROVAL]}},
            type=PatchType.MERGE,
            subresource="approval",
        )
        try:
            async with asyncio.timeout(patience):
                certificate = await _signed(client, created)
        except TimeoutError:
            advice = "see whether kube-controller-manager runs there, and has --cluster-signing-cert-file"
            raise NotIssued(
                f"the certificate of {user} was approved, but not signed within {patience:g} s: {advice}"
            ) from None
    finally:
        with suppress(KubeError):
            await client.delete(CERTIFICATE_SIGNING_REQUEST, created.name, uid=created.metadata.uid)
    return _checked(certificate, pair.key, user)


_APPROVAL: Tree = {
    "type": "Approved",
    "status": "True",
    "reason": "RequestedByEspalier",
    "message": "requested and approved by one user, for a kubeconfig with a short validity",
}


def _body(request: bytes, seconds: float) -> Tree:
    return {
        "apiVersion": CERTIFICATE_SIGNING_REQUEST.api_version,
        "kind": CERTIFICATE_SIGNING_REQUEST.kind,
        "metadata": {"generateName": "espalier-"},
        "spec": {
            "request": base64.b64encode(request).decode(),
            "signerName": CLIENT_SIGNER,
            "expirationSeconds": max(LEAST_VALIDITY, int(seconds)),
            "usages": list(USAGES),
        },
    }


async def _signed(client: Client, created: Object) -> bytes:
    """The certificate of a request, once it is there."""
    version = created.metadata.resource_version
    fields = f"metadata.name={created.name}"
    while True:
        watch = client.watch(CERTIFICATE_SIGNING_REQUEST, resource_version=version, fields=fields)
        async with aclosing(watch) as events:
            async for event in events:
                if event.type == "DELETED":
                    raise NotIssued(f"somebody deleted CertificateSigningRequest {created.name}; try again")
                certificate = _certificate(event.object, created.name)
                if certificate is not None:
                    return certificate
        # The server ended the watch: look once, and watch again.
        try:
            present = await client.get(CERTIFICATE_SIGNING_REQUEST, created.name)
        except NotFound:
            raise NotIssued(f"somebody deleted CertificateSigningRequest {created.name}; try again") from None
        certificate = _certificate(present, created.name)
        if certificate is not None:
            return certificate
        version = present.metadata.resource_version
        await asyncio.sleep(_PAUSE)


def _certificate(request: Object, name: str) -> bytes | None:
    try:
        status = request.decode(_Request).status
        certificate = base64.b64decode(status.certificate, validate=True)
    except (msgspec.MsgspecError, ValueError) as error:
        raise NotIssued(f"the answer about CertificateSigningRequest {name} can't be read: {error}") from None
    for condition in status.conditions:
        if condition.type in ("Denied", "Failed"):
            message = in_one_line(condition.message[:_LONGEST_MESSAGE])
            raise NotIssued(f"CertificateSigningRequest {name} was {condition.type.lower()}: {message}")
    if len(certificate) > _LARGEST:
        raise NotIssued(f"CertificateSigningRequest {name} has a certificate of more than {_LARGEST // 1024} KiB")
    return certificate or None


def _checked(certificate: bytes, key: bytes, user: str) -> KeyPair:
    """The pair, if the certificate belongs to the key."""
    private: Any = load_pem_private_key(key, password=None)
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    try:
        signed = x509.load_pem_x509_certificate(certificate).public_key().public_bytes(*form)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise NotIssued(f"the certificate for {user} can't be read: {error}") from None
    if signed != private.public_key().public_bytes(*form):
        raise NotIssued(f"the certificate for {user} has another key than was requested")
    return KeyPair(certificate, key)
