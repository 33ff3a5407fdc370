"""Real nodes on this machine: kubelets in systemd-nspawn containers, and the real programs of a management cluster."""
