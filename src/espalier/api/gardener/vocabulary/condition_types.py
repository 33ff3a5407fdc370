"""Reasons of conditions of Gardener's kinds that are True; the others are in `reasons.py`."""

from __future__ import annotations

from espalier.api.definitions.reference import Reason, satisfied


class Satisfied(Reason):
    """Reasons of conditions that are True."""

    BACKUPS_COPIED = satisfied("BackupsCopied", "the Etcd only copies, and all backups are copied")
    BACKUPS_CURRENT = satisfied("BackupsCurrent", "writes are backed up within the period in the message")
    BUCKET_REACHED = satisfied("BucketReached", "the store of the other seed answers")
    CLOCKS_AGREE = satisfied("ClocksAgree", "the gardenlet's clock agrees with the garden's")
    CONTROL_PLANE_RUNNING = satisfied("ControlPlaneRunning", "all of the control plane runs")
    DATA_KEPT = satisfied("DataKept", "no claim with data of a member is being deleted")
    DEPENDENTS_KEPT = satisfied("DependentsKept", "nothing that the extension made in the seed is being deleted")
    DEPLOYMENT_AVAILABLE = satisfied("DeploymentAvailable", "the API server is available")
    DESTINATION_SEED_READY = satisfied("DestinationSeedReady", "the destination can take the shoot")
    ETCD_READY = satisfied("EtcdReady", "etcd serves")
    EVERY_NODE_READY = satisfied("EveryNodeReady", "all nodes are ready")
    GARDENLET_READY = satisfied("GardenletReady", "the gardenlet renews its Lease")
    HIBERNATED = satisfied(
        "Hibernated", "the shoot is hibernated, and needs none of it; for `ReadyForDisaster`, it is fully backed up"
    )
    LEASE_VALID = satisfied("LeaseValid", "the lease is valid again")
    NOTHING_LEFT = satisfied("NothingLeft", "nothing of shoots that the seed no longer has is left in it")
    SEED_KINDS_SERVED = satisfied("SeedKindsServed", "the seed has served all kinds that its gardenlet needs")
    SYSTEM_COMPONENTS_RUNNING = satisfied("SystemComponentsRunning", "all of `kube-system` is available")
