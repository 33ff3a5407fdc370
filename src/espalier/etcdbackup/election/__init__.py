"""The election of the seed that owns a shoot's etcd: the agent beside it and the copier of a destination, as pure state
machines.

`agent.py` and `copier.py` receive the events of `events.py` and answer with the actions of `actions.py`. Neither reads
a clock or a store. Decision 0113 explains why this is safe. `tests/support/etcd/election/` explores all orders of
events; `docs/etcd-election.md` reports the results.
"""
