"""Espalier: one control plane that creates, upgrades, isolates, backs up and moves Kubernetes clusters."""
