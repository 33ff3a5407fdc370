"""Backups of a running etcd: full snapshots by schedule, deltas in between, retention, defragmentation."""
