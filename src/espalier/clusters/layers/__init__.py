"""Layers: each cluster is rendered as its own release does it, whatever the manager's release."""

from espalier.clusters.layers.layer import Layer, chosen, offered, release
from espalier.clusters.layers.table import LAYERS

__all__ = ["LAYERS", "Layer", "chosen", "offered", "release"]
