"""States of clusters and machines, and the statuses computed from them. Pure."""
