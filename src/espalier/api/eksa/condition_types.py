"""Reasons of conditions of our kinds that are True; the others are in `reasons.py`."""

from __future__ import annotations

from espalier.api.reference import Prose, Reason, Remedy


def _satisfied(name: str, meaning: str) -> Prose:
    return Prose(name, Remedy.NONE, meaning, ())


class Satisfied(Reason):
    """Reasons of conditions that are True."""

    AS_RENDERED = _satisfied("AsRendered", "nothing drifted")
    CLUSTER_READY = _satisfied("ClusterReady", "everything in the spec exists and is ready")
    CONTROL_PLANE_INITIALIZED = _satisfied("ControlPlaneInitialized", "the API server has answered")
    CONTROL_PLANE_READY = _satisfied("ControlPlaneReady", "all control plane machines are ready")
    DEFAULT_CNI_CONFIGURED = _satisfied("DefaultCNIConfigured", "the CNI is installed")
    DONE = _satisfied("Done", "the step on the node succeeded")
    NO_WORKERS = _satisfied("NoWorkers", "the spec has no workers")
    NOTHING_CAN_MOVE = _satisfied("NothingCanMove", "the step was skipped: no pod can move to another node")
    POD_CREATED = _satisfied("PodCreated", "the upgrader pod exists")
    SERVES_THIS_API = _satisfied("ServesThisAPI", "the management cluster itself: its API server answered the request")
    UPGRADED = _satisfied("Upgraded", "the in-place upgrade is done")
    WORKERS_READY = _satisfied("WorkersReady", "all workers are ready")
