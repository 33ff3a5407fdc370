"""The upgrader: one command per step of a node's upgrade, run in the containers of the upgrader pod.

It runs in an image without a shell, needs only Python's standard library, and imports nothing else of Espalier. It
changes the node's disk by renames, so that it can be killed at any point and run again. Only what has to run on the
host runs there (`systemctl` and `kubeadm`, through `nsenter`); it accesses files through the host's root directory,
mounted into the container.
"""
