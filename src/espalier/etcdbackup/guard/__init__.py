"""The guard: the parent process of an etcd, and the proxy through which clients reach it. It keeps nothing on disk.

It is small on purpose (standard library only), because each etcd has a guard in memory beside it.
"""
