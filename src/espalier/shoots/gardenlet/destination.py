"""The objects that a destination needs, read before a shoot's source is stopped: by the move itself, and by its
plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from espalier.api import conditions
from espalier.api.core import SECRET
from espalier.api.gardener import names, ownership
from espalier.api.gardener.extensions.control_plane import ControlPlane
from espalier.api.gardener.extensions.extension import Extension
from espalier.api.gardener.extensions.infrastructure import Infrastructure
from espalier.api.gardener.extensions.network import Network
from espalier.api.gardener.extensions.operating_system_config import OperatingSystemConfig
from espalier.api.gardener.extensions.worker import Worker
from espalier.api.gardener.garden.backups import BackupBucket
from espalier.api.gardener.garden.controller_installation import HEALTHY, INSTALLED, ControllerInstallation
from espalier.api.gardener.garden.controller_registration import ControllerRegistration
from espalier.api.gardener.garden.credentials_binding import named_credentials
from espalier.api.gardener.garden.seed import Seed
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.ownership import OwnershipError
from espalier.api.gardener.vocabulary.metadata_keys import OWNERSHIP
from espalier.api.gardener.vocabulary.operations import reported_by
from espalier.api.gardener.vocabulary.reasons import BackupReason, TaskReason
from espalier.api.kinds import KubeObject
from espalier.kube.client import Client
from espalier.kube.errors import Forbidden, NotFound
from espalier.kube.objects import Object
from espalier.shoots.garden.readiness import unready
from espalier.shoots.gardenlet.credentials import credentials_problem, provider_secret

UNREADABLE = "you may not read the Secret in the garden"

K = TypeVar("K", bound=KubeObject)


@dataclass(frozen=True)
class Need:
    """One object, or extension, without which the destination can't run the shoot."""

    what: str
    reason: str = ""
    """The CamelCase reason of a wait for it; empty if it is there."""
    problem: str | None = ""
    """The reason why it is of no use; empty if it is there, None if that is not known."""
    note: str = ""
    """A sentence for plans: what shows that it is there, or why that is not known."""


async def needs(garden: Client, shoot: Object, seed_name: str) -> list[Need]:
    """The needs of a seed to which a shoot moves. Raises `KubeError`."""
    typed = shoot.decode(Shoot)
    provider = await _provider_credentials(garden, typed)
    return [
        *([provider] if provider is not None else []),
        await _bucket_credentials(garden, "access to the source's backups", bucket_of_data(typed)),
        *await _of_seed(garden, seed_name),
        *await _extensions(garden, typed, seed_name),
    ]


def extension_types(shoot: Shoot) -> list[tuple[str, str]]:
    """Kinds and types of the extensions that a shoot needs in any seed, each once. Those for backups follow from the
    Seed, which has a bucket only if they run."""
    spec = shoot.spec
    needed = [(kind.resource.kind, spec.provider.type) for kind in (ControlPlane, Infrastructure, Worker)]
    if spec.networking is not None and spec.networking.type:
        needed.append((Network.resource.kind, spec.networking.type))
    images = [pool.machine.image for pool in spec.provider.workers]
    needed += [(OperatingSystemConfig.resource.kind, image.name) for image in images if image is not None]
    needed += [(Extension.resource.kind, extension.type) for extension in spec.extensions if not extension.disabled]
    return list(dict.fromkeys(needed))


async def _extensions(garden: Client, shoot: Shoot, seed_name: str) -> list[Need]:
    """The extensions of the shoot, by what the garden has registered. A garden without ControllerRegistrations does not
    know which seed has which extension, so nothing is asked of it."""
    try:
        registrations = await _all(garden, ControllerRegistration)
        installations = await _all(garden, ControllerInstallation)
    except NotFound:  # a garden of an earlier release
        return []
    except Forbidden:
        what = "its extensions"
        return [Need(what, problem=None, note="you may not list ControllerRegistrations and ControllerInstallations")]
    if not registrations:
        return []
    installed = {
        installation.spec.registration_ref.name: installation
        for installation in installations
        if installation.spec.seed_ref.name == seed_name
    }
    return [_extension(registrations, installed, kind, type_) for kind, type_ in extension_types(shoot)]


def _extension(
    registrations: Iterable[ControllerRegistration], installed: dict[str, ControllerInstallation], kind: str, type_: str
) -> Need:
    what = f"an extension for {kind} of type {type_}"
    suitable = [
        registration.metadata.name
        for registration in registrations
        if any((resource.kind, resource.type) == (kind, type_) for resource in registration.spec.resources)
    ]
    if not suitable:
        return Need(what, problem=None, note="no ControllerRegistration has this kind and type")
    problems = [_installation_problem(name, installed.get(name)) for name in suitable]
    if "" in problems:
        return Need(what, note=f"ControllerInstallation of {suitable[problems.index('')]} is healthy")
    advice = "install it there, or name another seed"
    return Need(what, TaskReason.EXTENSION_NOT_INSTALLED, f"{'; '.join(problems)}; {advice}")


def _installation_problem(registration: str, installation: ControllerInstallation | None) -> str:
    """The reason why an extension can't be used; empty if it can."""
    if installation is None:
        return f"ControllerRegistration {registration} has no ControllerInstallation for this seed"
    return "; ".join(_untrue(installation, (INSTALLED, HEALTHY)))


def _untrue(installation: ControllerInstallation, types: Iterable[str]) -> Iterator[str]:
    for type_ in types:
        condition = conditions.get(installation.status.conditions, type_)
        if condition is None or condition.status != "True":
            state = (
                f"{condition.status}: {condition.message or condition.reason}" if condition is not None else "nothing"
            )
            name = installation.metadata.name
            yield f"ControllerInstallation {name}: condition {type_}: found {state}, allowed: True"


async def _all(garden: Client, kind: type[K]) -> list[K]:
    return [object_.decode(kind) for object_ in (await garden.list(kind.resource)).items]


async def _of_seed(garden: Client, name: str) -> list[Need]:
    try:
        seed = (await garden.get(Seed.resource, name)).decode(Seed)
    except NotFound:
        return [Need(f"seed {name}", *unready(None))]
    except Forbidden:
        return [Need(f"seed {name}", problem=None, note=UNREADABLE)]
    reason, message = unready(seed, is_deleted=seed.metadata.deletion_timestamp is not None)
    bucket = names.bucket(seed.metadata.uid)
    credentials = await _bucket_credentials(garden, "access to its own backups", bucket, is_ready=True)
    return [Need(f"seed {name}", reason, message), credentials]


async def _provider_credentials(garden: Client, shoot: Shoot) -> Need | None:
    """The Secret that the destination copies for the extensions; None if the shoot names none."""
    spec, namespace = shoot.spec, shoot.metadata.namespace
    field, bound = named_credentials(spec)
    if not bound:
        return None
    what = "the provider's credentials"
    try:
        name = await provider_secret(garden, spec, namespace)
    except Forbidden:
        return Need(what, problem=None, note=UNREADABLE)
    except ValueError as problem:
        return Need(what, TaskReason.CREDENTIALS_MISSING, f"{field}: {problem}")
    named = f"{field}: found {bound}, but Secret {namespace}/{name}"
    try:
        secret = await garden.get(SECRET, name, namespace)
    except NotFound:
        return Need(
            what, TaskReason.CREDENTIALS_MISSING, f"{named} does not exist; create it with the provider's credentials"
        )
    except Forbidden:
        return Need(what, problem=None, note=UNREADABLE)
    if not secret.tree.get("data"):
        return Need(what, TaskReason.CREDENTIALS_MISSING, f"{named} is empty; write the provider's credentials into it")
    return Need(what)


async def _bucket_credentials(garden: Client, what: str, name: str, *, is_ready: bool = False) -> Need:
    """The BackupBucket, and the Secret with which it is read. `is_ready`: its seed must have reported it ready."""
    if not name:
        return Need(what)
    try:
        bucket = (await garden.get(BackupBucket.resource, name)).decode(BackupBucket)
        problem = await credentials_problem(garden, bucket)
    except NotFound:
        return Need(what, TaskReason.BUCKET_MISSING, f"there is no BackupBucket {name}")
    except Forbidden:
        return Need(what, problem=None, note=UNREADABLE)
    if problem:
        return Need(what, TaskReason.CREDENTIALS_MISSING, f"BackupBucket {name}: {problem}")
    status = bucket.status
    if is_ready and (status.last_operation is None or not status.last_operation.finished):
        why = reported_by(status.last_operation, status.last_error)
        return Need(what, BackupReason.BUCKET_NOT_READY, f"BackupBucket {name} is not ready yet{why}")
    return Need(what)


def bucket_of_data(shoot: Shoot) -> str:
    """The bucket of the epoch whose data are copied: its Seed may be gone, or replaced by another one of its name.
    Empty if no epoch has started, or if they can't be parsed."""
    try:
        last = ownership.parse(shoot.metadata.annotations.get(OWNERSHIP)).last_started
    except OwnershipError:
        return ""
    return last.bucket if last is not None else ""
