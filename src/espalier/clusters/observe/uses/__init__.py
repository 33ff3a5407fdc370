"""Clusters that use a release object, or a Secret with credentials."""
