"""Commands about backups of etcd, and the agents that make them."""
