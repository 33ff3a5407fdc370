"""Cluster API and its providers as their releases have them: files, versions, and what a management cluster needs."""
