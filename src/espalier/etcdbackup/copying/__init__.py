"""Copies of backups from one store to another: selected, verified in transit, and resumed by running the copy again. No
other process is notified: the election of an owner has its own objects for that."""
