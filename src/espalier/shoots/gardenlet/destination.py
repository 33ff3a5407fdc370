"""The objects that a destination needs, read before a shoot's source is stopped: by the move itself, and by its
plan."""

from __future__ import annotations

from dataclasses import dataclass

from espalier.api.core import SECRET
from espalier.api.gardener import names, ownership
from espalier.api.gardener.backups import BackupBucket
from espalier.api.gardener.metadata_keys import OWNERSHIP
from espalier.api.gardener.ownership import OwnershipError
from espalier.api.gardener.seed import Seed
from espalier.api.gardener.shoot import Shoot
from espalier.kube.client import Client
from espalier.kube.errors import Forbidden, NotFound
from espalier.kube.objects import Object
from espalier.shoots.garden.readiness import unready
from espalier.shoots.gardenlet.credentials import credentials_problem

CREDENTIALS_MISSING = "CredentialsMissing"


@dataclass(frozen=True)
class Need:
    """One object without which the destination can't run the shoot."""

    what: str
    reason: str = ""
    """The CamelCase reason of a wait for it; empty if it is there."""
    problem: str | None = ""
    """The reason why it is of no use; empty if it is there, None if it may not be read."""


async def needs(garden: Client, shoot: Object, seed_name: str) -> list[Need]:
    """The needs of a seed to which a shoot moves. Raises `KubeError`."""
    typed = shoot.decode(Shoot)
    provider = await _provider_credentials(garden, typed)
    return [
        *([provider] if provider is not None else []),
        await _bucket_credentials(garden, "access to the source's backups", bucket_of_data(typed)),
        *await _of_seed(garden, seed_name),
    ]


async def _of_seed(garden: Client, name: str) -> list[Need]:
    try:
        seed = (await garden.get(Seed.resource, name)).decode(Seed)
    except NotFound:
        return [Need(f"seed {name}", *unready(None))]
    except Forbidden:
        return [Need(f"seed {name}", problem=None)]
    reason, message = unready(seed, is_deleted=seed.metadata.deletion_timestamp is not None)
    bucket = names.bucket(seed.metadata.uid)
    credentials = await _bucket_credentials(garden, "access to its own backups", bucket, is_ready=True)
    return [Need(f"seed {name}", reason, message), credentials]


async def _provider_credentials(garden: Client, shoot: Shoot) -> Need | None:
    """The Secret that the destination copies for the extensions; None if the shoot names none."""
    spec, namespace = shoot.spec, shoot.metadata.namespace
    field = "credentialsBindingName" if spec.credentials_binding_name else "secretBindingName"
    name = spec.credentials_binding_name or spec.secret_binding_name
    if not name:
        return None
    what, named = "the provider's credentials", f"spec.{field}: found {name}, but Secret {namespace}/{name}"
    try:
        secret = await garden.get(SECRET, name, namespace)
    except NotFound:
        return Need(what, CREDENTIALS_MISSING, f"{named} does not exist; create it with the provider's credentials")
    except Forbidden:
        return Need(what, problem=None)
    if not secret.tree.get("data"):
        return Need(what, CREDENTIALS_MISSING, f"{named} is empty; write the provider's credentials into it")
    return Need(what)


async def _bucket_credentials(garden: Client, what: str, name: str, *, is_ready: bool = False) -> Need:
    """The BackupBucket, and the Secret with which it is read. `is_ready`: its seed must have reported it ready."""
    if not name:
        return Need(what)
    try:
        bucket = (await garden.get(BackupBucket.resource, name)).decode(BackupBucket)
        problem = await credentials_problem(garden, bucket)
    except NotFound:
        return Need(what, "BucketMissing", f"there is no BackupBucket {name}")
    except Forbidden:
        return Need(what, problem=None)
    if problem:
        return Need(what, CREDENTIALS_MISSING, f"BackupBucket {name}: {problem}")
    status = bucket.status
    if is_ready and (status.last_operation is None or not status.last_operation.finished):
        why = f": {status.last_error.description}" if status.last_error is not None else ""
        return Need(what, "BucketNotReady", f"BackupBucket {name} is not ready yet{why}")
    return Need(what)


def bucket_of_data(shoot: Shoot) -> str:
    """The bucket of the epoch whose data are copied: its Seed may be gone, or replaced by another one of its name.
    Empty if no epoch has started, or if they can't be parsed."""
    try:
        last = ownership.parse(shoot.metadata.annotations.get(OWNERSHIP)).last_started
    except OwnershipError:
        return ""
    return last.bucket if last is not None else ""
