"""Desired state of clusters in a Git repository, for Flux: files, what must not be in them, commits that are pushed."""
