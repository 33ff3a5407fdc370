"""Backups of an etcd that runs: full snapshots by schedule, deltas in between, retention, defragmentation."""
