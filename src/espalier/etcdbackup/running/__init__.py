"""The machines of an election at work: over object stores and processes, or over their twins in memory.

`agent.AgentRun` is the agent beside an etcd, `copier.CopierRun` the copy at a destination. Both are given their parts
(`parts.py`), the clock and the random numbers, so that they run on virtual time unchanged.
"""
