"""simulated Cluster API: what its core and the kubeadm providers promise to whoever writes their objects.

One file per controller. Each derives everything from objects each time and remembers nothing, so it may die and
start again at any point; it writes only where something differs, so a settled world is quiet.
"""
