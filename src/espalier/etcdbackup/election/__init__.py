"""Which of two seeds owns a shoot's etcd: the agent beside it and the copy of a destination, as pure state machines.

`agent.py` and `copier.py` are stepped by the events of `events.py` and answer with the actions of `actions.py`. Neither
reads a clock or a store. Why it is safe is in decision 0113; all orders of events are explored in
`tests/support/election`, and `docs/etcd-election.md` tells what was found.
"""
