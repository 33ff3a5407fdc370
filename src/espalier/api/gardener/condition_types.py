"""The conditions that Espalier gives Gardener's kinds. One table; their reasons are in `reasons.py`.

`make pages` writes `docs/reference/gardener/conditions.md` from both, and `tests/conventions` compares them with the
code.
"""

from __future__ import annotations

from espalier.api.gardener.reasons import ETCD, EXTENSION, SEED, SHOOT
from espalier.api.reference import ConditionType, Prose, Reason, Remedy

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


def _satisfied(name: str, meaning: str) -> Prose:
    return Prose(name, Remedy.NONE, meaning, ())


class Satisfied(Reason):
    """Reasons of conditions that are True."""

    BACKUPS_COPIED = _satisfied("BackupsCopied", "the Etcd only copies, and all backups are copied")
    BACKUPS_CURRENT = _satisfied("BackupsCurrent", "writes are backed up within the period in the message")
    BUCKET_REACHED = _satisfied("BucketReached", "the store of the other seed answers")
    CONTROL_PLANE_RUNNING = _satisfied("ControlPlaneRunning", "all of the control plane runs")
    DEPLOYMENT_AVAILABLE = _satisfied("DeploymentAvailable", "the API server is available")
    DESTINATION_SEED_READY = _satisfied("DestinationSeedReady", "the destination can take the shoot")
    ETCD_READY = _satisfied("EtcdReady", "etcd serves")
    EVERY_NODE_READY = _satisfied("EveryNodeReady", "all nodes are ready")
    GARDENLET_READY = _satisfied("GardenletReady", "the gardenlet renews its Lease")
    HIBERNATED = _satisfied(
        "Hibernated", "the shoot is hibernated, and needs none of it; for `ReadyForDisaster`, it is fully backed up"
    )
    LEASE_VALID = _satisfied("LeaseValid", "the lease is valid again")
    NOTHING_LEFT = _satisfied("NothingLeft", "nothing of shoots that the seed no longer has is left in it")
    SYSTEM_COMPONENTS_RUNNING = _satisfied("SystemComponentsRunning", "all of `kube-system` is available")
