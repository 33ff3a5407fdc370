"""Reasons of conditions of our kinds that are True; the others are in `reasons.py`."""

from __future__ import annotations

from espalier.api.definitions.reference import Reason, satisfied


class Satisfied(Reason):
    """Reasons of conditions that are True."""

    AS_RENDERED = satisfied("AsRendered", "nothing drifted")
    CLUSTER_READY = satisfied("ClusterReady", "everything in the spec exists and is ready")
    CONTROL_PLANE_INITIALIZED = satisfied("ControlPlaneInitialized", "the API server has answered")
    CONTROL_PLANE_READY = satisfied("ControlPlaneReady", "all control plane machines are ready")
    DEFAULT_CNI_CONFIGURED = satisfied("DefaultCNIConfigured", "the CNI is installed")
    DONE = satisfied("Done", "the step on the node succeeded")
    NO_WORKERS = satisfied("NoWorkers", "the spec has no workers")
    NOTHING_CAN_MOVE = satisfied("NothingCanMove", "the step was skipped: no pod can move to another node")
    POD_CREATED = satisfied("PodCreated", "the upgrader pod exists")
    SERVES_THIS_API = satisfied("ServesThisAPI", "the management cluster itself: its API server answered the request")
    UPGRADED = satisfied("Upgraded", "the in-place upgrade is done")
    WORKERS_READY = satisfied("WorkersReady", "all workers are ready")
