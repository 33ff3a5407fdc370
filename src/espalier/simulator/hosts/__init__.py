"""The disk of a simulated node: a folder with the files of image-builder, and stand-ins for the node's programs.

The stand-ins are test programs. They imitate systemd, containerd, kubeadm and a kubelet as far as a program that
upgrades a node can see, on that folder and on the node's API server; real nodes (`realnodes/nspawn/`) cover the rest.
That for kubeadm must pass `tests/contracts/test_kubeadm.py`, as must kubeadm itself.
"""
