"""Messages between etcd agents and gardenlets: sync objects, calls, and the times of the election.

In a migration the destination calls the source's agent, so both sides need the schemas.
"""
