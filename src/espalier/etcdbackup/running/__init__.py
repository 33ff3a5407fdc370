"""Runs the state machines of an election: on object stores and processes, or on their counterparts in memory.

`agent.AgentRun` is the agent beside an etcd, `copier.CopierRun` the copier of a destination. Both receive their parts
(`parts.py`), the clock and the random numbers, so that they run on virtual time unchanged.
"""
