"""The control plane of a shoot as objects of its seed: ordinary Deployments of ordinary images.

Pure functions. The objects that they name (secrets, the etcd) are in the shoot's namespace.
"""
