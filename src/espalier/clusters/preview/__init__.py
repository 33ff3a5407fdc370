"""Previews of changes to clusters, by the functions of a reconcile, from objects read once. Writes nothing.

`apply.py` applies a manifest to the existing objects, `effects/simulate.py` computes which objects a manager would then
write, `effects/machines.py` which machines Cluster API would replace for that, and `previews.py` combines them.
"""
