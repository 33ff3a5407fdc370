"""The control plane of a shoot as objects of its seed: ordinary Deployments of ordinary images.

Pure functions. Whatever they name (secrets, the etcd) lies in the shoot's namespace.
"""
