"""Secrets that a reconcile writes for users and workload clusters."""
