"""Messages between etcd agents, and between gardenlets and them: sync objects, calls, and the times of the election.

In a migration the destination talks to the source's agent, so the schemas are here and not in `etcdbackup`.
"""
