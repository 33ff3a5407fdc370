"""Rollouts that a command asks for: machines and certificates are replaced, one group at a time."""
