"""Layers: each cluster is rendered as its own release does it, whatever the manager's release."""

from espalier.clusters.design.layers.layer import Layer, chosen, offered, release
from espalier.clusters.design.layers.table import LAYERS

__all__ = ["LAYERS", "Layer", "chosen", "offered", "release"]
