"""Etcds: the StatefulSet of an etcd and of the agent beside it, with all that they need.

A copy version (`spec.backup.sourceStore`) has the agent alone, which copies backups and is Ready when it is done.
"""
