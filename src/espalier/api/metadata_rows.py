"""Annotations, labels and finalizers of Espalier and EKS Anywhere, and those of Cluster API that we set or obey.

From the prose of their constants; those of a provider are in its `Provider.annotations`.
"""

from __future__ import annotations

from espalier.api import moves
from espalier.api.capi import cluster
from espalier.api.definitions.reference import Annotation, Finalizer, Label, described
from espalier.api.eksa.vocabulary import group, metadata_keys, upgrade_keys

_MODULES = (group, metadata_keys, upgrade_keys, cluster, moves)

ANNOTATIONS = described(Annotation, *_MODULES)
LABELS = described(Label, *_MODULES)
FINALIZERS = described(Finalizer, *_MODULES)
