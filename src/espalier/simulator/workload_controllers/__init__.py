"""What kube-controller-manager, the scheduler and kubelets would do in a workload cluster of simulated machines.

One pure planner per concern looks at a `Snapshot` of the cluster and yields the writes that are missing.
`controller.py` drives them by watch events and makes the writes. A settled cluster yields none.
"""
