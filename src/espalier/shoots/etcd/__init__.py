"""Etcds: the StatefulSet of an etcd and of the agent beside it, with all that they need.

With `spec.backup.sourceStore` an Etcd has the agent alone, which copies backups, and is Ready when that is done.
"""
