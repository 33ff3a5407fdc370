"""Clusters that come from a Git repository: their changes are commits."""
