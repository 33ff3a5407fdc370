"""Reports on clusters: a fleet, a cluster, an upgrade."""
