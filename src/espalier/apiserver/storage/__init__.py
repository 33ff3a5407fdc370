"""Stores of objects: in memory, in SQLite, in etcd, encrypted or not."""
