"""Names that several parts of a migration derive independently, and that must agree."""

from __future__ import annotations

TECHNICAL_ID_PREFIX = "shoot--"
SOURCE_PREFIX = "source-"
PROJECT_NAMESPACE_PREFIX = "garden-"

GARDEN_NAMESPACE = "garden"
"""Namespace of the project `garden`, and of what belongs to no project."""

BACKUP_SECRET = "etcd-backup"  # noqa: S105  names of Secrets
"""Secret in the shoot's namespace with the container of its backups and credentials for it."""

SOURCE_BACKUP_SECRET = "source-etcd-backup"  # noqa: S105
"""The same for the container of the seed which the shoot comes from, while its backups are copied."""

AGENT_SERVICE = "etcd-main-agent"
"""Service in the shoot's namespace at which the agent beside its etcd answers, ready or not."""

AGENT_PORT = 8080

SEED_LEASES = "gardener-system-seed-lease"
"""Namespace of the garden with a Lease for each seed, which its gardenlet renews."""

STATE_NAMESPACE = "shoot-states"
"""Namespace of the garden with the state that is too large for ShootStates: project members may read the Secrets of
their own namespaces."""

LONGEST_NAMESPACE = 63
"""Characters: a technical ID is the name of a namespace."""


def technical_id(project: str, shoot: str) -> str:
    """The name of a shoot's namespace in its seed, of its Cluster, and the start of its BackupEntry's name."""
    return f"{TECHNICAL_ID_PREFIX}{project}--{shoot}"


def project_namespace(project: str) -> str:
    """The namespace of a project's shoots in the garden, where the Project names no other one."""
    return GARDEN_NAMESPACE if project == GARDEN_NAMESPACE else PROJECT_NAMESPACE_PREFIX + project


def project_of(namespace: str) -> str | None:
    """The project of a namespace, by the rule of `project_namespace`; None if the name does not follow it."""
    if namespace == GARDEN_NAMESPACE:
        return GARDEN_NAMESPACE
    project = namespace.removeprefix(PROJECT_NAMESPACE_PREFIX)
    return project if namespace != project and project else None


def backup_entry(technical_id: str, shoot_uid: str) -> str:
    """The name of a shoot's BackupEntry. The UID is that in the Shoot's status: it survives migrations."""
    return f"{technical_id}--{shoot_uid}"


def source_backup_entry(technical_id: str, shoot_uid: str) -> str:
    """The name of the BackupEntry for the container of the seed which the shoot comes from."""
    return SOURCE_PREFIX + backup_entry(technical_id, shoot_uid)


def is_source_backup_entry(name: str) -> bool:
    """True for names of source BackupEntries."""
    return name.startswith(SOURCE_PREFIX + TECHNICAL_ID_PREFIX)


def original_backup_entry(name: str) -> str:
    """The name of the BackupEntry whose container a source BackupEntry is for; another name stays as it is."""
    return name.removeprefix(SOURCE_PREFIX) if is_source_backup_entry(name) else name


def store_prefix(backup_entry: str, epoch: int, etcd: str = "etcd-main") -> str:
    """Prefix of the backups of one ownership epoch in a container: no epoch can touch those of another.

    A source BackupEntry has the prefix of the one it stands for.
    """
    return f"{original_backup_entry(backup_entry)}/{etcd}/{epoch}"


def bucket(seed_uid: str) -> str:
    """The name of a seed's BackupBucket."""
    return seed_uid
