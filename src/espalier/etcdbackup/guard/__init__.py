"""The guard: the parent of an etcd, and the door through which clients reach it. It keeps nothing on disk.

It is small on purpose (standard library only): what it has loaded stays in memory beside every etcd.
"""
