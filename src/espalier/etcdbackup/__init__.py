"""The agent beside an etcd: snapshots into a store, restore, copies between stores, and handover of ownership.

`agent/` is the process. Who owns an etcd is decided in `election/` (pure: the agent's and a copier's state machine) and
carried out by `running/`. `copying/` copies backups without an election.
"""
