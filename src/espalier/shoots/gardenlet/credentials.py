"""Secrets of the garden with credentials: of a bucket, with which any seed reads its backups, and of a provider."""

from __future__ import annotations

from espalier.api.core import SECRET
from espalier.api.gardener.garden.backups import BackupBucket
from espalier.api.gardener.garden.credentials_binding import CredentialsBinding, secret_of
from espalier.api.gardener.garden.shoot import ShootSpec
from espalier.kube.client import Client
from espalier.kube.errors import NotFound


async def credentials_problem(garden: Client, bucket: BackupBucket) -> str:
    """The problem of the Secret that a BackupBucket names; empty if it has data, or if no Secret is named. Raises
    `KubeError`."""
    reference = bucket.spec.credentials_ref or bucket.spec.secret_ref
    if reference is None:
        return ""
    problem = "is empty; write the credentials into it"
    try:
        if (await garden.get(SECRET, reference.name, reference.namespace)).tree.get("data"):
            return ""
    except NotFound:
        problem = "does not exist; create it"
    return f"Secret {reference.namespace}/{reference.name} of the garden, which gives access to it, {problem}"


async def provider_secret(garden: Client, spec: ShootSpec, namespace: str) -> str:
    """The Secret with a shoot's credentials at its provider, in the Shoot's namespace; empty if the Shoot names none.

    Raises `ValueError` for credentials that can't be read, and `KubeError`.
    """
    binding: CredentialsBinding | None = None
    if spec.credentials_binding_name:
        try:
            live = await garden.get(CredentialsBinding.resource, spec.credentials_binding_name, namespace)
            binding = live.decode(CredentialsBinding)
        except NotFound:
            binding = None
    return secret_of(spec, binding)
