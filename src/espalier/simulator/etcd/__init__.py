"""A single-member etcd for the local environment, without Go: for evaluation and tests, never for production.

It speaks etcd's API v3 as far as the API server and backups use it, responds as etcd 3.6 does, limits and error
texts included, and loses no acknowledged write when it is killed. It has no raft, no peers and no users.

`simulator/etcd/state/mvcc.py`, `simulator/etcd/state/leases.py`, `simulator/etcd/state/transactions.py`,
`simulator/etcd/state/core.py` and `simulator/etcd/state/watching.py` are pure: no I/O, no clock. `member.py` runs them
on an event loop over a storage; `server.py` answers over gRPC, `memory.py` within the process, also on virtual time.
"""
