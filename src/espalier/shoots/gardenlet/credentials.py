"""The Secret of the garden with the credentials of a bucket, by which any seed reads the backups in it."""

from __future__ import annotations

from espalier.api.core import SECRET
from espalier.api.gardener.backups import BackupBucket
from espalier.kube.client import Client
from espalier.kube.errors import NotFound


async def lacks_credentials(garden: Client, bucket: BackupBucket) -> str:
    """Its problem; empty if there is none, or if the bucket names none. Raises `KubeError`."""
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
