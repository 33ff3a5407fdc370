"""Restore of etcd's data directory from backups, without an etcd: records are written into its database, and beside it
the log of raft from which a new cluster starts. Until the last rename, nothing is changed but a folder of our own.
"""
