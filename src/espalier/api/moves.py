"""Labels and annotations of `clusterctl move`, on definitions and on objects that are moved."""

from typing import Annotated

from espalier.api.definitions.reference import Annotation, Writer

DELETE_FOR_MOVE: Annotated[
    str,
    Annotation(
        "Cluster, upgrades, datacenter and machine configs, objects of Cluster API",
        Writer.USER,
        "The object was moved to another management cluster (`clusterctl move` sets it): nothing is done for "
        "it any more, and when it is deleted, nothing else is.",
        "remove it to resume, if the object is not managed elsewhere",
    ),
] = "clusterctl.cluster.x-k8s.io/delete-for-move"

BLOCK_MOVE = "clusterctl.cluster.x-k8s.io/block-move"
"""Annotation on an object that can't be moved yet: its controller removes it."""

MOVED = {"clusterctl.cluster.x-k8s.io": "", "clusterctl.cluster.x-k8s.io/move": ""}
"""Labels of a CRD whose objects are all moved."""

MOVED_WITH_OWNED = {**MOVED, "clusterctl.cluster.x-k8s.io/move-hierarchy": ""}
"""The same, with everything that these objects own."""
