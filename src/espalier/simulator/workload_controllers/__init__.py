"""Simulated kube-controller-manager, scheduler and kubelets of workload clusters.

One pure planner per concern reads a `Snapshot` of the cluster and yields the missing writes. `controller.py` runs them
on watch events and executes the writes. A settled cluster yields none.
"""
