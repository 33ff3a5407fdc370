"""The disk of a simulated node: a folder with what image-builder puts on a machine, and stand-ins for its programs.

The stand-ins are test programs. They do as much of what systemd, containerd, kubeadm and a kubelet do as a program that
upgrades a node can see, on that folder and on the node's API server; a real node (`realnodes/nspawn/`) shows the rest.
"""
