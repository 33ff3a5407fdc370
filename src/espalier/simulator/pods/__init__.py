"""Pods of simulated nodes that run as processes of this machine, for images with a registered program.

All other pods are simulated like their nodes: they are only reported as running. Decision 0063 describes purpose and
limits; in short, a process has no container, only a folder that stands for its `/`.
"""
