"""Access to workload clusters."""
