"""Rights of each seed's gardenlet in the garden: Roles with resourceNames, updated as shoots come and go.

What every gardenlet may read has no secrets. A ShootState, which has keys, is named in the Role of the seed that owns
the shoot now; a source loses this right with the next epoch.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from espalier.api import core
from espalier.api.gardener import names, ownership
from espalier.api.gardener.garden.backups import BackupBucket, BackupEntry
from espalier.api.gardener.garden.controller_installation import ControllerInstallation
from espalier.api.gardener.garden.controller_registration import ControllerRegistration
from espalier.api.gardener.garden.credentials_binding import CredentialsBinding, secret_of
from espalier.api.gardener.garden.project import Project
from espalier.api.gardener.garden.seed import Seed
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.garden.shoot_state import ShootState
from espalier.api.gardener.ownership import OwnershipError
from espalier.api.gardener.vocabulary.metadata_keys import OWNERSHIP
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.kube.objects import Object
from espalier.kube.rbac import FOLLOW, Right, trees
from espalier.runtime.caches.cache import Caches
from espalier.runtime.caches.transforms import metadata_only
from espalier.runtime.controllers.controller import Controller
from espalier.runtime.controllers.outcome import Done, Outcome
from espalier.runtime.controllers.reconciler import replanned
from espalier.runtime.controllers.writer import Writer, found_by_owner
from espalier.shoots.state import pieces
from espalier.shoots.state.rbac import ROLE_OF_GARDENLET, in_state_namespace

USER = "gardener.cloud:system:seed:{seed}"
"""The user of a seed's gardenlet in the garden."""

BACKUP = ":backup"
"""Suffix of the names of Roles for the credentials of buckets; no name of a seed has a colon."""
FORMER_BACKUP = "-backup"
"""The former suffix: Roles with it are deleted."""


def everywhere(seed: Seed) -> list[Right]:
    """Rights in the ClusterRole: on cluster-scoped kinds, and on objects that all gardenlets may read."""
    own, bucket = (seed.metadata.name,), (seed.metadata.uid,)
    readable = (Shoot.resource, Seed.resource, Project.resource, BackupBucket.resource, BackupEntry.resource)
    return [
        Right(readable, ("get", *FOLLOW)),
        Right((ControllerRegistration.resource, ControllerInstallation.resource), ("list",)),
        Right((Seed.resource,), ("patch",), "status", names=own),
        Right((BackupBucket.resource,), ("create",)),
        Right((BackupBucket.resource,), ("patch",), names=bucket),
        Right((BackupBucket.resource,), ("patch",), "status", names=bucket),
    ]


def in_project(seed: str, shoots: Iterable[Object], bindings: Iterable[Object] = ()) -> list[Right]:
    """Rights in the namespace of a project, given its Shoots and CredentialsBindings; none if the seed has none of
    them."""
    assigned, owned, bound = [], [], set()
    binding_of = {binding.name: binding.decode(CredentialsBinding) for binding in bindings}
    bindings_read = set()
    for shoot in shoots:
        typed = shoot.decode(Shoot)
        if seed in (typed.spec.seed_name, typed.status.seed_name):
            assigned.append(shoot.name)
        if owner_of(shoot) == seed:
            owned.append(shoot.name)
            bindings_read.add(typed.spec.credentials_binding_name)
            with suppress(ValueError):  # the gardenlet reports it
                bound.add(secret_of(typed.spec, binding_of.get(typed.spec.credentials_binding_name)))
    if not assigned:
        return []
    rights = [
        Right((Shoot.resource,), ("patch",), names=tuple(sorted(assigned))),
        Right((Shoot.resource,), ("patch",), "status", names=tuple(sorted(assigned))),
        Right((ShootState.resource, BackupEntry.resource), ("create",)),
    ]
    if owned:
        rights.append(Right((ShootState.resource,), ("get", "update", "patch", "delete"), names=tuple(sorted(owned))))
        # For the ShootState, which blocks the Shoot's deletion, with admission plugin
        # OwnerReferencesPermissionEnforcement.
        rights.append(Right((Shoot.resource,), ("update",), "finalizers", names=tuple(sorted(owned))))
    if read := tuple(sorted(filter(None, bindings_read))):
        rights.append(Right((CredentialsBinding.resource,), ("get",), names=read))
    if credentials := tuple(sorted(filter(None, bound))):
        rights.append(Right((core.SECRET,), ("get",), names=credentials))
    return rights


def on_entries(seed: str, shoots: Iterable[Object], entries: Iterable[Object]) -> list[Right]:
    """Rights on BackupEntries: those of the seed, and those of shoots whose newest epoch is the seed's, which it moves
    to its bucket."""
    owned = {shoot.metadata.uid for shoot in shoots if owner_of(shoot) == seed}
    own_names = {
        entry.name
        for entry in entries
        if entry.decode(BackupEntry).spec.seed_name == seed
        or any(owner.uid in owned for owner in entry.metadata.owner_references)
    }
    if not own_names:
        return []
    entry_names = tuple(sorted(own_names))
    return [
        Right((BackupEntry.resource,), ("patch", "delete"), names=entry_names),
        Right((BackupEntry.resource,), ("patch",), "status", names=entry_names),
    ]


def owner_of(shoot: Object) -> str:
    """The seed of the newest epoch; empty if there is none, or if it can't be parsed."""
    try:
        current = ownership.parse(shoot.metadata.annotations.get(OWNERSHIP)).current
    except OwnershipError:
        return ""
    return current.seed if current is not None else ""


def _seeds_of(shoot: Object) -> set[str]:
    """The seeds that are involved with a shoot."""
    typed = shoot.decode(Shoot)
    return {typed.spec.seed_name or "", typed.status.seed_name or "", owner_of(shoot)} - {""}


def _keys_of(shoot: Object) -> list[Key]:
    return [Key("", name) for name in sorted(_seeds_of(shoot))]


class Roles:
    """Keeps the Roles of all seeds up to date."""

    def __init__(self, caches: Caches, writer: Writer) -> None:
        self._seeds = caches.of(Seed.resource)
        self._shoots = caches.of(Shoot.resource, indexes={pieces.BY_SHOOT_UID: pieces.shoot_uids})
        self._entries, self._buckets = caches.of(BackupEntry.resource), caches.of(BackupBucket.resource)
        self._bindings = caches.of(CredentialsBinding.resource)
        self._pieces = caches.of(core.SECRET, names.STATE_NAMESPACE, transform=metadata_only)
        self._roles = {resource: caches.of(resource) for resource in WRITTEN}
        self._writer = writer.with_caches(self._roles)

    def controller(self) -> Controller:
        """The controller, by Seed."""
        roles_controller = Controller("seed-rights", replanned(self._reconcile), workers=1)
        roles_controller.watch(self._seeds)
        roles_controller.watch(self._shoots, _keys_of)
        roles_controller.watch(self._entries, lambda _entry: [seed.key for seed in self._seeds.list()])
        roles_controller.watch(self._bindings, self._seeds_of_binding)
        roles_controller.watch(self._pieces, self._seeds_of_piece)
        for cache in self._roles.values():
            roles_controller.watch(cache, _seeds_named, predicate=_is_edited)
        roles_controller.watch(self._buckets, lambda _bucket: [seed.key for seed in self._seeds.list()])
        return roles_controller

    def _seeds_of_binding(self, binding: Object) -> list[Key]:
        shoots = self._shoots.list(binding.namespace)
        bound = [shoot for shoot in shoots if shoot.decode(Shoot).spec.credentials_binding_name == binding.name]
        return [key for shoot in bound for key in _keys_of(shoot)]

    def _seeds_of_piece(self, secret: Object) -> list[Key]:
        origin = pieces.origin_of(secret.name)
        shoots = self._shoots.by_index(pieces.BY_SHOOT_UID, origin.shoot_uid) if origin is not None else []
        return [key for shoot in shoots for key in _keys_of(shoot)]

    def _pieces_of(self, seed: str) -> list[str]:
        """Secrets with state of shoots whose newest epoch is the seed's."""
        owned = {shoot.metadata.uid for shoot in self._shoots.list() if owner_of(shoot) == seed}
        origins = {piece.name: pieces.origin_of(piece.name) for piece in self._pieces.list()}
        return [name for name, origin in origins.items() if origin is not None and origin.shoot_uid in owned]

    async def _reconcile(self, key: Key) -> Outcome:
        live, name = self._seeds.get(key), key.name
        if live is None and any(name in _seeds_of(shoot) for shoot in self._shoots.list()):
            return Done()  # its gardenlet still has to migrate or delete the shoots
        if live is None:
            await self._delete_roles(name)
            return Done()
        granted = self._granted(live.decode(Seed))
        for (namespace, suffix), rights in granted.items():
            await self._grant(namespace, rights, name, suffix)
        for resource in (core.ROLE, core.CLUSTER_ROLE):
            for role in self._roles[resource].list():
                former = self._suffix(role, name)
                if former is not None and (role.namespace, former) not in granted:
                    await self._grant(role.namespace, [], name, former)
        return Done()

    async def _delete_roles(self, seed: str) -> None:
        """Delete the Roles of a Seed that is gone, each before its binding, which identifies it."""
        for resource, binding in ((core.ROLE, core.ROLE_BINDING), (core.CLUSTER_ROLE, core.CLUSTER_ROLE_BINDING)):
            for bound in self._roles[binding].list():
                if self._suffix(bound, seed) is None:
                    continue
                role = self._roles[resource].get(bound.key)
                for kind, live in ((resource, role), (binding, bound)):
                    if live is not None:
                        await self._writer.delete(kind, live, found_by_owner)

    def _granted(self, seed: Seed) -> dict[tuple[str, str], list[Right]]:
        """All rights of a seed, by namespace and suffix of the Role."""
        name = seed.metadata.name
        granted = {
            ("", ""): everywhere(seed),
            # Whoever may read a ShootState may read the Secrets that it references.
            (names.STATE_NAMESPACE, ""): in_state_namespace(name, self._pieces_of(name)),
            (names.SEED_LEASES, ""): [
                Right((core.LEASE,), ("get", "patch"), names=(name,)),
                Right((core.LEASE,), ("create",)),
            ],
        }
        by_namespace: dict[str, list[Object]] = {}
        for shoot in self._shoots.list():
            by_namespace.setdefault(shoot.namespace, []).append(shoot)
        for namespace, shoots in by_namespace.items():
            entries = self._entries.list(namespace)
            bindings = self._bindings.list(namespace)
            granted[namespace, ""] = [*in_project(name, shoots, bindings), *on_entries(name, shoots, entries)]
        for namespace, secrets in self._bucket_secrets(name).items():
            granted[namespace, BACKUP] = [Right((core.SECRET,), ("get",), names=tuple(secrets))]
        return granted

    def _suffix(self, role: Object, seed: str) -> str | None:
        """The suffix in the name of a Role of a seed; None for other Roles."""
        own = ROLE_OF_GARDENLET.format(seed=seed)
        binding = core.ROLE_BINDING if role.namespace else core.CLUSTER_ROLE_BINDING
        bound = self._roles[binding].get(role.key)
        if (
            role.name not in (own, own + BACKUP, own + FORMER_BACKUP)
            or bound is None
            or bound.tree.get("subjects") != _subjects(seed)
        ):
            return None
        return role.name.removeprefix(own)

    def _bucket_secrets(self, seed: str) -> dict[str, list[str]]:
        """Secrets of the buckets of the seed's entries."""
        used = {
            entry.decode(BackupEntry).spec.bucket_name
            for entry in self._entries.list()
            if entry.decode(BackupEntry).spec.seed_name == seed
        }
        names_by_namespace: dict[str, set[str]] = {}
        for bucket in self._buckets.list():
            spec = bucket.decode(BackupBucket).spec
            reference = spec.credentials_ref or spec.secret_ref
            if reference is not None and (spec.seed_name == seed or bucket.name in used):
                names_by_namespace.setdefault(reference.namespace, set()).add(reference.name)
        own = self._seeds.get(Key("", seed))
        backup = own.decode(Seed).spec.backup if own is not None else None
        reference = (backup.credentials_ref or backup.secret_ref) if backup is not None else None
        if reference is not None:
            names_by_namespace.setdefault(reference.namespace, set()).add(reference.name)
        return {namespace: sorted(secrets) for namespace, secrets in names_by_namespace.items()}

    async def _grant(self, namespace: str, rights: list[Right], seed: str, suffix: str = "") -> None:
        role, binding = (core.ROLE, core.ROLE_BINDING) if namespace else (core.CLUSTER_ROLE, core.CLUSTER_ROLE_BINDING)
        name = ROLE_OF_GARDENLET.format(seed=seed) + suffix
        present = self._roles[role].get(Key(namespace, name))
        if not rights and present is None:
            return
        rules = trees(rights)
        if present is None or (present.tree.get("rules") or []) != rules:
            await self._writer.apply(role, role.body(name, namespace) | {"rules": rules}, found_by_owner)
        subjects = _subjects(seed)
        bound = self._roles[binding].get(Key(namespace, name))
        if bound is None or bound.tree.get("subjects") != subjects:
            reference = {"apiGroup": core.ROLE.group, "kind": role.kind, "name": name}
            body = binding.body(name, namespace) | {"roleRef": reference, "subjects": subjects}
            await self._writer.apply(binding, body, found_by_owner)


WRITTEN: tuple[Resource, ...] = (core.ROLE, core.ROLE_BINDING, core.CLUSTER_ROLE, core.CLUSTER_ROLE_BINDING)


def _seeds_named(role: Object) -> list[Key]:
    """The seed of this Role or RoleBinding."""
    before, _, after = ROLE_OF_GARDENLET.partition("{seed}")
    if not role.name.startswith(before):
        return []
    seed = role.name.removeprefix(before).removesuffix(after)
    possible = (seed, seed.removesuffix(BACKUP), seed.removesuffix(FORMER_BACKUP))
    return [Key("", name) for name in dict.fromkeys(possible)]


def _subjects(seed: str) -> list[Tree]:
    return [{"apiGroup": core.ROLE.group, "kind": "User", "name": USER.format(seed=seed)}]


def _is_edited(old: Object | None, new: Object | None) -> bool:
    """True if somebody deleted a Role or binding, or changed its rules or subjects: the reconcile restores them."""
    if old is None or new is None:
        return old is not None
    return any(old.tree.get(field) != new.tree.get(field) for field in ("rules", "subjects"))
