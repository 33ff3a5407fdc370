"""Reads of upgrades: caches, the clusters that have an upgrade, their nodes and their health."""
