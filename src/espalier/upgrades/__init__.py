"""In-place upgrades: Kubernetes upgraded on the node, the machine kept."""
