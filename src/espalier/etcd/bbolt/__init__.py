"""The file format of bbolt, in which etcd keeps its data: read it, write a file, append to one.

Only what etcd needs of it: buckets of sorted keys, no transactions on pages that are in use. The format is bbolt's as
of version 1.4 (go.etcd.io/bbolt, `internal/common`): pages of one size, all numbers little-endian.
"""
