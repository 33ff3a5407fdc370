"""Machines: what they were made from, which go first, and how a rollout proceeds. Pure."""
