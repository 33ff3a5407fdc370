"""Reasons of conditions of Gardener's kinds that are True; the others are in `reasons.py`."""

from __future__ import annotations

from espalier.api.reference import Prose, Reason, Remedy


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
