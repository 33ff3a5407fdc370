"""Snapshots in the format of etcd-backup-restore: names, sets, content, retention. None of this needs an etcd."""
