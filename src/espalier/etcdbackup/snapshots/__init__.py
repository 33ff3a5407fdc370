"""Snapshots in the format of etcd-backup-restore: names, sets, content, retention. No etcd is needed for any of it."""
