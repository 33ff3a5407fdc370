"""Simulated Cluster API: the contract of its core and kubeadm providers towards clients.

One file per controller. Each is stateless and derives everything from objects, so it can crash and restart at any
point; it writes only differences, so a settled environment is quiet.
"""
