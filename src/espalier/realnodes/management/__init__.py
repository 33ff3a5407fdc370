"""The real programs of a management cluster as supervised children of this process.

etcd, kube-apiserver, kube-controller-manager and Cluster API's managers: who starts them, who restarts them, and how
they trust each other. Found, never fetched.
"""
