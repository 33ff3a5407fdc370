"""The program on the node: one command per step of a node's upgrade, run in the containers of the upgrader pod.

It runs in an image without a shell, with nothing but Python's standard library, and imports nothing of the rest of
Espalier. Whatever it changes on the node's disk is changed by a rename, so that it can be killed at any instruction and
run again. Only what has to run on the host runs there (`systemctl`, `kubeadm`, by `nsenter`); files are reached through
the host's root folder, mounted into the container.
"""
