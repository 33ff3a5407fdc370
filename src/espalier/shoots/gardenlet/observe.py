"""The caches of a gardenlet in its seed and in the garden, and the scope of one shoot from them."""

from __future__ import annotations

from datetime import datetime

from espalier.api import core
from espalier.api.gardener import SHOOT_EXTENSION_KINDS, names, ownership
from espalier.api.gardener.etcd import Etcd
from espalier.api.gardener.extensions import extension_backups
from espalier.api.gardener.extensions.cluster import Cluster
from espalier.api.gardener.garden.backups import BackupBucket, BackupEntry
from espalier.api.gardener.garden.project import Project, project_of
from espalier.api.gardener.garden.seed import Seed
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.vocabulary.metadata_keys import OWNERSHIP
from espalier.api.resource import Key, Resource
from espalier.kube.objects import Object
from espalier.runtime.caches.cache import Cache, Caches
from espalier.shoots.gardenlet.context import Live
from espalier.shoots.gardenlet.names import CONTROL_PLANE, ROLE, SHOOT_UID
from espalier.shoots.gardenlet.scope import ExtensionResource, Scope
from espalier.shoots.technical_ids import technical_ids

SEED_KINDS: tuple[Resource, ...] = (
    core.NAMESPACE,
    core.SECRET,
    core.SERVICE,
    core.DEPLOYMENT,
    Cluster.resource,
    Etcd.resource,
    *(kind.resource for kind in SHOOT_EXTENSION_KINDS),
    extension_backups.BackupBucket.resource,
    extension_backups.BackupEntry.resource,
)
ACCOUNT_KINDS: tuple[Resource, ...] = (core.SERVICE_ACCOUNT, core.ROLE_BINDING)
"""Only those of control planes are cached: each namespace has others."""
GARDEN_KINDS: tuple[Resource, ...] = (
    Shoot.resource,
    Seed.resource,
    Project.resource,
    BackupBucket.resource,
    BackupEntry.resource,
)
"""ShootStates are missing: they hold keys, and a seed may read only those of its own shoots, by name."""


def uid_of(shoot: Object) -> str:
    """The identity of a shoot that survives its restore in another garden."""
    return shoot.decode(Shoot).status.uid or shoot.metadata.uid


class ShootObserver:
    """The caches of a gardenlet."""

    def __init__(self, garden: Caches, seed: Caches, seed_name: str) -> None:
        self.garden: dict[Resource, Cache] = {resource: garden.of(resource) for resource in GARDEN_KINDS}
        self.seed: dict[Resource, Cache] = {resource: seed.of(resource) for resource in SEED_KINDS}
        self.seed |= {resource: seed.of(resource, labels=CONTROL_PLANE) for resource in ACCOUNT_KINDS}
        self.pods = seed.of(core.POD, labels=CONTROL_PLANE)
        """Pods of control planes: a Deployment does not count terminating ones, which still run."""
        self.garden[Shoot.resource].add_indexes({"technicalID": technical_ids})
        self.seed_name = seed_name

    def shoot(self, key: Key) -> Object | None:
        """The Shoot as cached."""
        return self.garden[Shoot.resource].get(key)

    def shoots(self) -> list[Object]:
        """All Shoots of the garden."""
        return self.garden[Shoot.resource].list()

    @property
    def own_seed(self) -> Object | None:
        """The Seed that this gardenlet serves."""
        return self.garden[Seed.resource].get(Key("", self.seed_name))

    def project_of(self, namespace: str) -> str:
        """The project of a namespace of the garden."""
        return project_of(namespace, (project.decode(Project) for project in self.garden[Project.resource].list()))

    def technical_id(self, shoot: Object) -> str:
        """The shoot's namespace: as in its status, or as it will be."""
        return shoot.decode(Shoot).status.technical_id or self._technical_id_by_name(shoot)

    def technical_id_conflict(self, shoot: Object) -> str:
        """The problem of a technical ID that is, or would be, another shoot's; empty if there is none.

        Each seed writes the status of its shoots: a false one must not give access to objects of other shoots here. Two
        stored shoots may have names that give the same technical ID: the first one keeps it.
        """
        present, allowed = self.technical_id(shoot), self._technical_id_by_name(shoot)
        if present != allowed:
            return (
                f"status.technicalID: found {present}, allowed: {allowed}, from project and name. Correct "
                "the status, or restore the Project"
            )
        typed, uid = shoot.decode(Shoot), uid_of(shoot)
        marked = self._marked_otherwise(present, uid)
        others = [
            other for other in self.garden[Shoot.resource].by_index("technicalID", present) if other.key != shoot.key
        ]
        if (others and not typed.status.technical_id) or (marked is not None and self._is_anothers(shoot, marked)):
            return (
                f"status.technicalID: {present} belongs to another shoot; create this shoot "
                "under another name, or wait until the other one is gone"
            )
        return self._wrong_uid(shoot, marked) if marked is not None else ""

    def _marked_otherwise(self, technical_id: str, uid: str) -> Object | None:
        """The namespace or the Cluster of this technical ID, if it is annotated with another UID."""
        key = Key("", technical_id)
        here = (self.seed[core.NAMESPACE].get(key), self.seed[Cluster.resource].get(key))
        marked = (object_ for object_ in here if object_ is not None)
        return next(
            (object_ for object_ in marked if object_.metadata.annotations.get(SHOOT_UID) not in (None, uid)), None
        )

    def _is_anothers(self, shoot: Object, marked: Object) -> bool:
        """True if another Shoot has the UID with which an object is annotated, or the name that leads to it."""
        uid = marked.metadata.annotations.get(SHOOT_UID)
        others = [other for other in self.shoots() if other.key != shoot.key]
        return any(uid == uid_of(other) or self.technical_id(other) == marked.name for other in others)

    def _wrong_uid(self, shoot: Object, marked: Object) -> str:
        """The message for an object with the UID of no Shoot: somebody changed it, or `status.uid`."""
        uid, holder = uid_of(shoot), marked.metadata.annotations.get(SHOOT_UID)
        status = f'{{"status":{{"uid":"{holder}"}}}}'
        return (
            f"status.uid: found {uid}, but {marked.kind} {marked.name} of seed {self.seed_name} is annotated "
            f"{SHOOT_UID}={holder}, which is the UID of no other Shoot. If status.uid was changed: kubectl patch shoot "
            f"{shoot.name} -n {shoot.namespace} --subresource status --type merge -p '{status}'; if the annotation "
            f"was: kubectl annotate --overwrite {marked.kind.lower()} {marked.name} {SHOOT_UID}={uid}, in the seed"
        )

    def _technical_id_by_name(self, shoot: Object) -> str:
        return names.technical_id(self.project_of(shoot.namespace), shoot.name)

    def shoot_of(self, technical_id: str) -> Key | None:
        """The key of the Shoot with this technical ID."""
        shoots = self.garden[Shoot.resource].by_index("technicalID", technical_id)
        return next((shoot.key for shoot in shoots if not self.technical_id_conflict(shoot)), None)

    def claimants(self, technical_id: str) -> list[Key]:
        """The keys of all Shoots with this technical ID; one that must not act says why."""
        return [shoot.key for shoot in self.garden[Shoot.resource].by_index("technicalID", technical_id)]

    def is_here(self, technical_id: str) -> bool:
        """True if the seed has the namespace or the Cluster of this shoot."""
        key = Key("", technical_id)
        return self.seed[core.NAMESPACE].get(key) is not None or self.seed[Cluster.resource].get(key) is not None

    def scope(self, live: Live, now: datetime) -> Scope:
        """The scope of one shoot. Raises `OwnershipError` if its epochs can't be parsed."""
        shoot = live.shoot
        technical_id = self.technical_id(shoot)
        uid = uid_of(shoot)
        entry = names.backup_entry(technical_id, uid)
        entries, seed = self.garden[BackupEntry.resource], self.own_seed

        def inside(resource: Resource) -> dict[str, Object]:
            return {object_.name: object_ for object_ in self.seed[resource].list(technical_id)}

        typed_seed = seed.decode(Seed) if seed is not None else None
        bucket = (
            self.garden[BackupBucket.resource].get(Key("", names.bucket(seed.metadata.uid)))
            if seed is not None
            else None
        )
        return Scope(
            object=shoot,
            now=now,
            seed_name=self.seed_name,
            technical_id=technical_id,
            seed=typed_seed,
            ownership=ownership.parse(shoot.metadata.annotations.get(OWNERSHIP)),
            state=live.state,
            bucket=bucket.decode(BackupBucket) if bucket is not None else None,
            backup_entry=entries.get(Key(shoot.namespace, entry)),
            source_backup_entry=entries.get(Key(shoot.namespace, names.SOURCE_PREFIX + entry)),
            namespace=self.seed[core.NAMESPACE].get(Key("", technical_id)),
            cluster=self.seed[Cluster.resource].get(Key("", technical_id)),
            etcd=self.seed[Etcd.resource].get(Key(technical_id, "etcd-main")),
            secrets=inside(core.SECRET),
            deployments=inside(core.DEPLOYMENT),
            services=inside(core.SERVICE),
            service_accounts=inside(core.SERVICE_ACCOUNT),
            role_bindings=inside(core.ROLE_BINDING),
            pod_roles=frozenset(pod.metadata.labels.get(ROLE, "") for pod in self.pods.list(technical_id)),
            extensions=tuple(
                ExtensionResource(kind, object_)
                for kind in SHOOT_EXTENSION_KINDS
                for object_ in self.seed[kind.resource].list(technical_id)
            ),
            backup_resources=tuple(
                object_
                for kind, name in (
                    (extension_backups.BackupEntry, entry),
                    (extension_backups.BackupBucket, bucket.name if bucket is not None else ""),
                )
                if (object_ := self.seed[kind.resource].get(Key("", name))) is not None
            ),
        )
