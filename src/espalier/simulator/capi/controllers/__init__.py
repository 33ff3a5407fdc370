"""Simulated Cluster API's controllers."""
