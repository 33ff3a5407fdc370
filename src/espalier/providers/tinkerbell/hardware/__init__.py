"""Bare metal of a management cluster: its kinds, the file it comes from, and what machine configs select of it."""
