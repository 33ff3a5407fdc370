"""The PersistentVolume controllers: each claim is bound to a new volume at once, and is kept while a pod on a node
uses it.

A volume is a disk of the simulated infrastructure, which is attached to any node that its pod runs on.
"""

from __future__ import annotations

from collections.abc import Iterator

from espalier.api.core import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.simulator.workload_controllers.snapshot import Snapshot
from espalier.simulator.workload_controllers.views import Claim
from espalier.simulator.workload_controllers.writes import Change, Create, Delete, Write

PVC_PROTECTION = "kubernetes.io/pvc-protection"
"""The finalizer of claims, which keeps a claim while a pod uses it."""
DRIVER = "disks.simulator.espalier"
"""The CSI driver of the volumes."""


def plan(snapshot: Snapshot) -> Iterator[Write]:
    """The missing writes for PersistentVolumeClaims and PersistentVolumes."""
    scheduled = (pod for pod in snapshot.pods if pod.spec.node_name)
    used = {Key(pod.metadata.namespace, name) for pod in scheduled for name in pod.spec.claims}
    volumes = {volume.metadata.name: volume for volume in snapshot.volumes}
    for claim in snapshot.claims:
        key = claim.key
        finalizers = claim.metadata.finalizers
        if claim.deleting:
            if PVC_PROTECTION in finalizers and key not in used:
                remaining = [finalizer for finalizer in finalizers if finalizer != PVC_PROTECTION]
                yield Change(PERSISTENT_VOLUME_CLAIM, key, {"metadata": {"finalizers": remaining or None}})
            continue
        name = claim.spec.volume_name or volume_name(claim)
        if name not in volumes:
            if not claim.spec.volume_name:
                yield Create(PERSISTENT_VOLUME, _volume(claim, name))
            elif claim.status.phase == "Bound":
                yield Change(PERSISTENT_VOLUME_CLAIM, key, {"status": {"phase": "Lost"}}, "status")
            continue
        if not claim.spec.volume_name or PVC_PROTECTION not in finalizers:
            metadata = {"finalizers": list(dict.fromkeys((*finalizers, PVC_PROTECTION)))}
            yield Change(PERSISTENT_VOLUME_CLAIM, key, {"metadata": metadata, "spec": {"volumeName": name}})
        if claim.status.phase != "Bound":
            status = {"phase": "Bound", "accessModes": claim.spec.access_modes, "capacity": _capacity(claim)}
            yield Change(PERSISTENT_VOLUME_CLAIM, key, {"status": status}, "status")
    yield from _plan_volumes(snapshot)


def _plan_volumes(snapshot: Snapshot) -> Iterator[Write]:
    """Writes that bind volumes, and delete or release those whose claim is deleted, as their reclaim policy says."""
    claims = {claim.metadata.uid for claim in snapshot.claims}
    for volume in snapshot.volumes:
        reference = volume.spec.claim_ref
        if reference is None or volume.deleting:
            continue
        key = Key("", volume.metadata.name)
        phase = "Bound" if reference.uid in claims else "Released"
        if phase == "Released" and volume.spec.persistent_volume_reclaim_policy == "Delete":
            yield Delete(PERSISTENT_VOLUME, key, volume.metadata.uid)
        elif volume.status.phase != phase:
            yield Change(PERSISTENT_VOLUME, key, {"status": {"phase": phase}}, "status")


def volume_name(claim: Claim) -> str:
    """The name of a claim's volume."""
    return f"pvc-{claim.metadata.uid}"


def _volume(claim: Claim, name: str) -> Tree:
    return {
        "apiVersion": PERSISTENT_VOLUME.api_version,
        "kind": PERSISTENT_VOLUME.kind,
        "metadata": {"name": name},
        "spec": {
            "accessModes": claim.spec.access_modes,
            "capacity": _capacity(claim),
            "persistentVolumeReclaimPolicy": "Delete",
            "volumeMode": claim.spec.volume_mode,
            **({"storageClassName": claim.spec.storage_class_name} if claim.spec.storage_class_name else {}),
            "claimRef": {
                "apiVersion": PERSISTENT_VOLUME_CLAIM.api_version,
                "kind": PERSISTENT_VOLUME_CLAIM.kind,
                "name": claim.metadata.name,
                "namespace": claim.metadata.namespace,
                "uid": claim.metadata.uid,
            },
            "csi": {"driver": DRIVER, "volumeHandle": name},
        },
    }


def _capacity(claim: Claim) -> Tree:
    requests = claim.spec.resources.get("requests") or {}
    return {"storage": requests.get("storage", "1Gi")}
