"""The Secret of the garden with a bucket's credentials, with which any seed reads its backups."""

from __future__ import annotations

from espalier.api.core import SECRET
from espalier.api.gardener.backups import BackupBucket
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
