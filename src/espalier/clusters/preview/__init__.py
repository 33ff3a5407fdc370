"""Previews of changes to clusters, by the functions that a reconcile runs, from objects read once. Writes nothing.

`asking.py` says what a manifest makes of the objects that are there, `simulate.py` which objects a manager would write
then, `machines.py` which machines Cluster API would replace for that, and `previews.py` puts it together.
"""
