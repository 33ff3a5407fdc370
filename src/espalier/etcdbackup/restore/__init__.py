"""Restore of etcd's data directory from backups, without an etcd: records are written into its database, and beside it
the raft log from which a new cluster starts. Until the last rename, only our own folder is changed."""
