"""Access to workload clusters: clients, accounts, and tasks outside of reconciles."""
