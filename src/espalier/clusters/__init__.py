"""The Cluster controller of `anywhere.eks.amazonaws.com`: from a Cluster to the objects of Cluster API, and back."""

from espalier.clusters.gate import Isolation

__all__ = ["Isolation"]
