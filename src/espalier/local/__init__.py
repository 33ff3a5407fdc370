"""The laptop world: Cluster API in the small, simulated machines, the API servers of workload clusters, in one process.

For trying things out and for tests; never for production.
"""
