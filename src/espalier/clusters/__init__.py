"""The Cluster controller of `anywhere.eks.amazonaws.com`: Cluster API objects from a Cluster, and its status."""

from espalier.clusters.design.drift.gate import Isolation

__all__ = ["Isolation"]
