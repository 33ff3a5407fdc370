"""The real programs of a management cluster as supervised children of this process.

etcd, kube-apiserver, kube-controller-manager and Cluster API's managers: starting, restarting, certificates. The
programs must exist; none is downloaded.
"""
