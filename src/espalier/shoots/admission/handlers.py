"""The admission webhooks of the garden, and of seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from espalier.api.core import LEASE, SECRET
from espalier.api.gardener import names
from espalier.api.gardener.garden.backups import BackupBucket, BackupEntry
from espalier.api.gardener.garden.cloud_profile import CloudProfile
from espalier.api.gardener.garden.project import Project, project_of
from espalier.api.gardener.garden.seed import Seed
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.garden.shoot_state import ShootState
from espalier.api.kinds import KubeObject
from espalier.api.manifests import schema
from espalier.api.resource import Key
from espalier.api.text.violations import Violation
from espalier.kube.objects import Object
from espalier.runtime.caches.cache import Cache, Caches
from espalier.runtime.servers.admission import WRITES, AdmissionRequest, AdmissionResponse, AdmissionWebhook, not_ready
from espalier.runtime.servers.webhooks import Webhooks
from espalier.shoots.admission import (
    backup_buckets,
    backup_entries,
    messages,
    seed_objects,
    shoot_states,
    statuses,
    users,
)
from espalier.shoots.admission.shoot_rules import shoots
from espalier.shoots.admission.shoot_rules.shoots import Garden
from espalier.shoots.bucket_providers import BucketProviders
from espalier.shoots.state import pieces
from espalier.shoots.technical_ids import BY_TECHNICAL_ID, technical_ids

_PATH = "/validate-core-gardener-cloud"
VALIDATE_SHOOT = f"{_PATH}-v1beta1-shoot"
VALIDATE_SHOOT_STATUS = f"{VALIDATE_SHOOT}-status"
VALIDATE_SEED = f"{_PATH}-v1beta1-seed"
VALIDATE_BACKUP_ENTRY = f"{_PATH}-v1beta1-backupentry"
VALIDATE_BACKUP_BUCKET = f"{_PATH}-v1beta1-backupbucket"
VALIDATE_SHOOT_STATE = f"{_PATH}-v1alpha1-shootstate"
VALIDATE_STATE_PIECE = "/validate-v1-secret-of-shoot-state"
VALIDATE_SEED_LEASE = "/validate-coordination-k8s-io-v1-lease-of-seed"

WEBHOOKS = (
    AdmissionWebhook("validate", Shoot.resource, VALIDATE_SHOOT),
    AdmissionWebhook("validate", Shoot.resource, VALIDATE_SHOOT, ("UPDATE",), subresource="binding"),
    AdmissionWebhook("validate", Shoot.resource, VALIDATE_SHOOT_STATUS, ("UPDATE",), subresource="status"),
    AdmissionWebhook("validate", Seed.resource, VALIDATE_SEED, (*WRITES, "DELETE")),
    AdmissionWebhook("validate", BackupEntry.resource, VALIDATE_BACKUP_ENTRY, (*WRITES, "DELETE")),
    AdmissionWebhook("validate", BackupBucket.resource, VALIDATE_BACKUP_BUCKET, (*WRITES, "DELETE")),
    AdmissionWebhook("validate", ShootState.resource, VALIDATE_SHOOT_STATE, (*WRITES, "DELETE")),
    AdmissionWebhook("validate", SECRET, VALIDATE_STATE_PIECE, namespace=names.STATE_NAMESPACE),
    AdmissionWebhook("validate", LEASE, VALIDATE_SEED_LEASE, ("CREATE",), namespace=names.SEED_LEASES),
)
"""The garden's webhooks. A Shoot gets its seed by `binding` where the API server is Gardener's."""

BY_SEED = "seed"
BY_NAME = "name"
BY_NAMESPACE = "namespace"

K = TypeVar("K", bound=KubeObject)


class Admission:
    """The handlers. They read from caches only. `unready` says why the garden is not ready."""

    def __init__(
        self, caches: Caches, bucket_providers: BucketProviders, *, unready: Callable[[], str] = lambda: ""
    ) -> None:
        self._unready, self._bucket_providers = unready, bucket_providers
        by = {
            BY_SEED: seeds_of,
            BY_NAME: lambda object_: (object_.name,),
            BY_TECHNICAL_ID: technical_ids,
            pieces.BY_SHOOT_UID: pieces.shoot_uids,
        }
        self._shoots = caches.of(Shoot.resource, indexes=by)
        self._projects = caches.of(Project.resource, indexes={BY_NAMESPACE: namespaces})
        self._seeds = caches.of(Seed.resource)
        self._profiles = caches.of(CloudProfile.resource)
        self.garden = Garden(
            lambda name: _typed(self._seeds, name, Seed),
            lambda name: _typed(self._profiles, name, CloudProfile),
            lambda seed: len(self._shoots.by_index(BY_SEED, seed)),
            self._project,
            self._is_taken,
        )
        """The inputs of the rules, also for controllers."""

    def serve(self, webhooks: Webhooks) -> None:
        """Register the handlers at their paths."""
        webhooks.handle(VALIDATE_SHOOT, self.shoot)
        webhooks.handle(VALIDATE_SHOOT_STATUS, self.shoot_status)
        webhooks.handle(VALIDATE_SEED, self.seed)
        webhooks.handle(VALIDATE_BACKUP_ENTRY, self.backup_entry)
        webhooks.handle(VALIDATE_BACKUP_BUCKET, self.backup_bucket)
        webhooks.handle(VALIDATE_SHOOT_STATE, self.shoot_state)
        webhooks.handle(VALIDATE_STATE_PIECE, self.state_piece)
        webhooks.handle(VALIDATE_SEED_LEASE, seed_lease)

    def shoot(self, request: AdmissionRequest) -> AdmissionResponse:
        """Review a write of a Shoot."""
        return self._review(request, Shoot, lambda new: shoots.violations(request.old, new, request.user, self.garden))

    def shoot_status(self, request: AdmissionRequest) -> AdmissionResponse:
        """Review a write of a Shoot's status."""
        old = request.old
        if old is None:
            return AdmissionResponse()
        return self._review(request, Shoot, lambda new: statuses.violations(old, new, request.user, self.garden))

    def seed(self, request: AdmissionRequest) -> AdmissionResponse:
        """Review a write of a Seed. Reject its deletion while shoots are there, or assigned to it: nobody
        could find their backups."""
        if request.operation != "CREATE" and not self._shoots.synced:
            return not_ready("garden", self._unready())
        shoot_keys = [str(shoot.key) for shoot in self._shoots.by_index(BY_SEED, request.name)]
        if request.operation != "DELETE":

            def violations(new: Object) -> Iterator[Violation]:
                old = request.old.decode(Seed) if request.old is not None else None
                return seed_objects.violations(
                    old, new.decode(Seed), self._bucket_providers, has_shoots=bool(shoot_keys)
                )

            return reviewed(request, Seed, violations)
        if shoot_keys:
            return AdmissionResponse(False, seed_objects.deletion_refusal(request.name, shoot_keys))
        seed = request.old.decode(Seed) if request.old is not None else None
        left = seed_objects.remains(seed, [shoot.decode(Shoot) for shoot in self._shoots.list()]) if seed else ""
        return AdmissionResponse(not left, left)

    def backup_entry(self, request: AdmissionRequest) -> AdmissionResponse:
        """Review a write of a BackupEntry; reject its deletion while its Shoot exists."""
        if request.operation == "DELETE":
            return self._entry_deleted(request)

        def violations(new: Object) -> Iterator[Violation]:
            old = request.old.decode(BackupEntry) if request.old is not None else None
            namespace_shoots = [shoot.decode(Shoot) for shoot in self._shoots.list(new.namespace)]
            return backup_entries.violations(old, new.decode(BackupEntry), namespace_shoots)

        return self._review(request, BackupEntry, violations)

    def _entry_deleted(self, request: AdmissionRequest) -> AdmissionResponse:
        if not self._shoots.synced:
            return not_ready("garden", self._unready())
        namespace_shoots = [shoot.decode(Shoot) for shoot in self._shoots.list(request.namespace)]
        if not backup_entries.is_in_use(request.name, namespace_shoots):
            return AdmissionResponse()
        key = Key(request.namespace, request.name)
        return AdmissionResponse(False, f"BackupEntry {key} can't be deleted: {messages.ENTRY_HELD}")

    def backup_bucket(self, request: AdmissionRequest) -> AdmissionResponse:
        """Review a write of a BackupBucket; reject its deletion while it has backups of shoots."""
        if request.operation == "DELETE":
            if not self._shoots.synced:
                return not_ready("garden", self._unready())
            if not backup_buckets.is_in_use(request.name, (shoot.decode(Shoot) for shoot in self._shoots.list())):
                return AdmissionResponse()
            return AdmissionResponse(False, f"BackupBucket {request.name} can't be deleted: {messages.BUCKET_HELD}")
        seed = _typed(self._seeds, users.seed_of(request.user) or "", Seed)
        old = request.old.decode(BackupBucket) if request.old is not None else None
        return self._review(
            request,
            BackupBucket,
            lambda new: backup_buckets.violations(old, new.decode(BackupBucket), request.user, seed),
        )

    def shoot_state(self, request: AdmissionRequest) -> AdmissionResponse:
        """Review a write of a ShootState; reject its deletion while its Shoot exists."""
        if request.operation != "DELETE":
            return self._review(
                request, ShootState, lambda new: self._shoot_state_violations(new.decode(ShootState), request)
            )
        if not self._shoots.synced:
            return not_ready("garden", self._unready())
        shoot = self._shoots.get(Key(request.namespace, request.name))
        if shoot is None or shoot.metadata.deletion_timestamp is not None:
            return AdmissionResponse()
        return AdmissionResponse(False, f"ShootState {shoot.key} can't be deleted: {messages.STATE_HELD}")

    def state_piece(self, request: AdmissionRequest) -> AdmissionResponse:
        """Review a write of a Secret with state of a shoot."""
        if not self._shoots.synced:
            return not_ready("garden", self._unready())
        new = request.object
        violations = (
            list(shoot_states.piece_of_another_seed(new, request.user, self._with_uid)) if new is not None else []
        )
        return AdmissionResponse.refuse(new, violations) if new is not None and violations else AdmissionResponse()

    def _with_uid(self, uid: str) -> Shoot | None:
        return next((shoot.decode(Shoot) for shoot in self._shoots.by_index(pieces.BY_SHOOT_UID, uid)), None)

    def _shoot_state_violations(self, state: ShootState, request: AdmissionRequest) -> Iterator[Violation]:
        shoot = self._shoots.get(Key(request.namespace, state.metadata.name))
        typed = shoot.decode(Shoot) if shoot is not None else None
        if request.operation == "CREATE":  # RBAC restricts other writes by name
            yield from shoot_states.made_by_another_seed(state, typed, request.user)
        yield from shoot_states.violations(state)

    def _review(
        self, request: AdmissionRequest, kind: type[KubeObject], rules: Callable[[Object], Iterable[Violation]]
    ) -> AdmissionResponse:
        if not all(cache.synced for cache in (self._shoots, self._seeds, self._profiles, self._projects)):
            return not_ready("garden", self._unready())
        return reviewed(request, kind, rules)

    def _project(self, namespace: str) -> str:
        projects = self._projects.by_index(BY_NAMESPACE, namespace)
        return project_of(namespace, (project.decode(Project) for project in projects))

    def _is_taken(self, shoot: Shoot, technical_id: str) -> bool:
        """True if another shoot has a technical ID, or will have it: that of a shoot that no gardenlet has started
        follows from its name."""
        key = Key(shoot.metadata.namespace, shoot.metadata.name)
        if any(other.key != key for other in self._shoots.by_index(BY_TECHNICAL_ID, technical_id)):
            return True
        namesakes = [other for other in self._shoots.by_index(BY_NAME, shoot.metadata.name) if other.key != key]
        return any(not any(technical_ids(other)) and self._will_have(other) == technical_id for other in namesakes)

    def _will_have(self, shoot: Object) -> str:
        return names.technical_id(self._project(shoot.namespace), shoot.name)


def reviewed(
    request: AdmissionRequest, kind: type[KubeObject], rules: Callable[[Object], Iterable[Violation]]
) -> AdmissionResponse:
    """The answer for an object of a kind. Objects that are being deleted, and writes that change nothing, always
    pass."""
    new = request.object
    if new is None:
        return AdmissionResponse()
    try:
        violations = list(rules(new))
    except msgspec.MsgspecError as error:
        fields = [replace(violation, found="") for violation in schema.violations(kind, new.tree)]  # it may be a secret
        return AdmissionResponse.refuse(new, fields or [Violation("", "", "", str(error))])
    if violations:
        return AdmissionResponse.refuse(new, violations)
    return AdmissionResponse(warnings=_unused_fields(kind, request) if kind in (Shoot, Seed) else ())


def _unused_fields(kind: type[KubeObject], request: AdmissionRequest) -> tuple[str, ...]:
    """Warnings for new fields that are stored, because Gardener has them, but have no effect here."""
    before: Any = request.old.tree.get("spec") if request.old is not None else {}
    after: Any = request.object.tree.get("spec") if request.object is not None else {}
    if before == after:
        return ()
    known = schema.preserved_fields(kind, before)
    return tuple(
        f"{field}: it is kept, but does nothing here" + (f'; did you mean "{meant}"?' if meant else "")
        for field, meant in schema.preserved_fields(kind, after).items()
        if field not in known
    )


def seed_lease(request: AdmissionRequest) -> AdmissionResponse:
    """Review the creation of a seed's Lease, by which the garden judges whether the seed is alive. RBAC restricts
    updates by name."""
    new, seed = request.object, users.seed_of(request.user)
    if new is None or seed in (None, new.name):
        return AdmissionResponse()
    return AdmissionResponse.refuse(new, [Violation("metadata.name", new.name, seed or "", messages.LEASE_OF_SEED)])


def seeds_of(shoot: Object) -> Iterable[str]:
    """Index: the seeds that a shoot has or is assigned to."""
    typed = shoot.decode(Shoot)
    return dict.fromkeys(filter(None, (typed.spec.seed_name, typed.status.seed_name)))


def namespaces(project: Object) -> Iterable[str]:
    """Index: the namespace of a project."""
    namespace = project.decode(Project).spec.namespace
    return (namespace,) if namespace else ()


def _typed(cache: Cache, name: str, kind: type[K]) -> K | None:
    object_ = cache.get(Key("", name))
    return object_.decode(kind) if object_ is not None else None
