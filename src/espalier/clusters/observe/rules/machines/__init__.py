"""Rules about machines: their operating systems, and their kubelets."""
