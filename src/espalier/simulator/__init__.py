"""The simulator: simulated Cluster API, simulated machines, and the API servers of workload clusters, in one process.

For evaluation and tests, never for production.
"""
