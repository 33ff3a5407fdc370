"""The simulator: simulated Cluster API, simulated machines, and the API servers of workload clusters, in one process.

For trying things out and for tests; never for production.
"""
