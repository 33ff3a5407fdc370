"""Admission of Clusters and releases: defaults, and refusals with all reasons at once."""
