"""The garden's BackupBuckets and BackupEntries."""
