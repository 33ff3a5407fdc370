"""Manifests on their way to the API server: everything that is wrong with them is reported before."""
