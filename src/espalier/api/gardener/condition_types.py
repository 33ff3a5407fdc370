"""The conditions that Espalier gives Gardener's kinds. One table; their reasons are in `reasons.py`.

`make pages` writes `docs/reference/gardener/conditions.md` from both, and `tests/conventions` compares them with the
code.
"""

from __future__ import annotations

from espalier.api.gardener.reasons import ETCD, EXTENSION, SEED, SHOOT
from espalier.api.reference import ConditionType

CONDITIONS: tuple[ConditionType, ...] = (
    ConditionType(
        "APIServerAvailable",
        (SHOOT,),
        "True: the Deployment of the API server in the seed is available, or the shoot hibernates.",
    ),
    ConditionType(
        "ControlPlaneHealthy",
        (SHOOT,),
        "True: etcd is ready and all Deployments of the control plane are available, or the shoot hibernates.",
    ),
    ConditionType(
        "EveryNodeReady",
        (SHOOT,),
        "True: all nodes are ready, and there are at least as many as the minimum of all workers. Asked of the shoot's "
        "API server every minute.",
    ),
    ConditionType(
        "SystemComponentsHealthy",
        (SHOOT,),
        "True: the Deployments and DaemonSets in the shoot's `kube-system` are available. Asked every minute.",
    ),
    ConditionType(
        "ReadyForDisaster",
        (SHOOT,),
        "True: if the seed were lost now, the shoot could be restored elsewhere, losing no more than a delta period. "
        "[migration.md](../../migration.md#ready-for-disaster) says how that is found out.",
    ),
    ConditionType(
        "ReadyForMigration",
        (SHOOT,),
        "Constraint of a Shoot that is to move. True: the destination is ready, and the source may stop. Absent "
        "otherwise.",
    ),
    ConditionType(
        "GardenletReady",
        (SEED,),
        "True: its gardenlet renews its Lease, and so reaches the seed and the garden. Unknown: it does not.",
    ),
    ConditionType(
        "MovedShootsRemoved",
        (SEED,),
        "True: the seed's cluster has nothing of shoots that the seed no longer has. Its Seed can't be deleted before, "
        'unless it is annotated `confirmation.gardener.cloud/deletion: "true"`.',
    ),
    ConditionType(
        "BucketReachable-SEED",
        (SEED,),
        "True: the network of this seed reaches the store of seed SEED, TLS included, tried without credentials every "
        "ten minutes. One for each other Seed with backups.",
    ),
    ConditionType(
        "Ready",
        (ETCD,),
        "True: etcd serves, or all backups are copied where the Etcd only copies.",
    ),
    ConditionType(
        "LeaseValid",
        (EXTENSION,),
        "False: the resource is left alone, because its seed may have lost the shoot. Absent until that was once so.",
    ),
)


def of_kind(kind: str) -> list[ConditionType]:
    """The conditions of a kind, in order."""
    return [condition for condition in CONDITIONS if kind in condition.kinds]


SATISFIED = {
    "BackupsCopied": "the Etcd only copies, and all backups are copied",
    "BackupsCurrent": "writes are backed up within the period in the message",
    "BucketReached": "the store of the other seed answers",
    "ControlPlaneRunning": "all of the control plane runs",
    "DeploymentAvailable": "the API server is available",
    "DestinationSeedReady": "the destination can take the shoot",
    "EtcdReady": "etcd serves",
    "EveryNodeReady": "all nodes are ready",
    "GardenletReady": "the gardenlet renews its Lease",
    "Hibernated": "the shoot is hibernated, and needs none of it; for `ReadyForDisaster`, it is fully backed up",
    "LeaseValid": "the lease is valid again",
    "NothingLeft": "nothing of shoots that the seed no longer has is left in it",
    "SystemComponentsRunning": "all of `kube-system` is available",
}
"""Reasons of conditions that are True. There is nothing to do."""
