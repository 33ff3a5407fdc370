"""A page that shows clusters and shoots, live, to whoever's kubeconfig it is served with. It writes nothing.

Data goes one way: watches fill caches (`observation.py`), pure functions make views of the objects
(`dashboard/models/fleet.py`, `dashboard/models/cluster.py`, `dashboard/models/garden.py`), `html/` renders these, a
feed (`feed.py`) pushes the fragments that changed, `serving.py` answers browsers; `portal.py` those who bring tokens.
"""
