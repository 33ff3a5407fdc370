"""Certificates of webhooks that are installed without cert-manager: issued by the command, and kept by the cluster.

Manifests have a Secret of type kubernetes.io/tls without data for each Service with webhooks, named after it with
`-cert`. It gets a certificate of an authority that signs nothing else: its key is thrown away. Webhooks and conversions
behind the Service trust that authority.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from espalier.api.core import CUSTOM_RESOURCE_DEFINITION, SECRET, Secret
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.kube.client import Client
from espalier.kube.connection.pki import Authority, KeyPair
from espalier.kube.errors import NotFound

DAYS = 3650
RENEWED_WITHIN = timedelta(days=365)
"""A certificate that ends sooner is replaced when the manifests are applied again."""
_AUTHORITY, _COMMON_NAME = "webhooks", "webhook"
_SUFFIX = "-cert"
_TLS = "kubernetes.io/tls"

Data = Mapping[str, bytes]
"""Data of such a Secret: `tls.crt`, `tls.key`, and `ca.crt`, what callers trust."""


async def certified(client: Client, trees: Sequence[Tree], now: datetime) -> list[Tree]:
    """Manifests with certificates: those that the cluster has, unless they end soon, and new ones."""
    known = {}
    for tree in trees:
        if not _is_wanted(tree):
            continue
        key = Key(tree["metadata"]["namespace"], tree["metadata"]["name"])
        try:
            present = (await client.get(SECRET, key.name, key.namespace)).decode(Secret).data
        except NotFound:
            present = {}
        known[key] = present if is_usable(present, now) else issued(key, now)
    return [_with_certificates(tree, known) for tree in trees]


def is_usable(data: Data, now: datetime) -> bool:
    """True if a Secret has a certificate that is valid for long enough."""
    try:
        certificate = KeyPair(data["tls.crt"], data["tls.key"])
        return bool(data["ca.crt"]) and certificate.not_after - now > RENEWED_WITHIN
    except (KeyError, ValueError):
        return False


def issued(secret: Key, now: datetime) -> Data:
    """A new certificate for the Service of a Secret."""
    service = f"{secret.name.removesuffix(_SUFFIX)}.{secret.namespace}.svc"
    # Names of Services are too long for common names (64 characters), by which nobody is known anyway.
    authority = Authority.create(_AUTHORITY, now=now, days=DAYS)
    pair = authority.issue_server(_COMMON_NAME, names=[service, f"{service}.cluster.local"], now=now, days=DAYS)
    return {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": authority.certificate}


def _is_wanted(tree: Tree) -> bool:
    return tree["kind"] == SECRET.kind and tree.get("type") == _TLS and not tree.get("data")


def _with_certificates(tree: Tree, known: Mapping[Key, Data]) -> Tree:
    """A copy of a manifest with the certificate, or with the authority that it is to trust."""
    if _is_wanted(tree):
        data = known[Key(tree["metadata"]["namespace"], tree["metadata"]["name"])]
        return {**tree, "data": {name: b64encode(value).decode() for name, value in data.items()}}
    if tree["kind"] == CUSTOM_RESOURCE_DEFINITION.kind:
        conversion = tree["spec"].get("conversion") or {}
        if not (webhook := conversion.get("webhook")):
            return tree
        trusting = {**conversion, "webhook": _trusting(webhook, known)}
        return {**tree, "spec": {**tree["spec"], "conversion": trusting}}
    if "webhooks" in tree:
        return {**tree, "webhooks": [_trusting(webhook, known) for webhook in tree["webhooks"]]}
    return tree


def _trusting(webhook: dict[str, Any], known: Mapping[Key, Data]) -> dict[str, Any]:
    config = webhook.get("clientConfig") or {}
    service = config.get("service") or {}
    data = known.get(Key(service.get("namespace", ""), f"{service.get('name', '')}{_SUFFIX}"))
    if data is None:
        return webhook
    return {**webhook, "clientConfig": {**config, "caBundle": b64encode(data["ca.crt"]).decode()}}
