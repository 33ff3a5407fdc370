"""Planners: each yields the writes of one of Kubernetes' controllers. Pure."""
