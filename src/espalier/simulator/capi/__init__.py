"""Cluster API in the small: what its core and the kubeadm providers promise to whoever writes their objects.

One file per controller. Each derives everything from objects at every pass and remembers nothing, so it may die and
start again at any point; it writes only where something differs, so a settled world is quiet.
"""
