"""Labels and annotations of `clusterctl move`, on definitions and on objects that are moved."""

DELETE_FOR_MOVE = "clusterctl.cluster.x-k8s.io/delete-for-move"
"""Annotation on an object that is deleted because another management cluster has it now: nothing but the object may
go."""

BLOCK_MOVE = "clusterctl.cluster.x-k8s.io/block-move"
"""Annotation on an object that can't be moved yet: its controller removes it."""

MOVED = {"clusterctl.cluster.x-k8s.io": "", "clusterctl.cluster.x-k8s.io/move": ""}
"""Labels of a CRD whose objects are all moved."""

MOVED_WITH_OWNED = {**MOVED, "clusterctl.cluster.x-k8s.io/move-hierarchy": ""}
"""The same, with everything that these objects own."""
