"""The disk of a simulated node: a folder with the files of image-builder, and stand-ins for the node's programs.

The stand-ins are test programs. They do as much of what systemd, containerd, kubeadm and a kubelet do as a program that
upgrades a node can see, on that folder and on the node's API server; a real node (`realnodes/nspawn/`) shows the rest.
That for kubeadm is held to `tests/contracts/test_kubeadm.py`, as kubeadm itself is.
"""
