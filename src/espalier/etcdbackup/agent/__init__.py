"""The process beside an etcd: it takes its backups and answers over HTTP."""
