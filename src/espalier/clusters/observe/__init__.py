"""Observation: everything that a reconcile of a Cluster reads, in one frozen `Scope`, and the rules about it."""
