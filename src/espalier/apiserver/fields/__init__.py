"""Patches, and the check of an applied configuration before `kube/server_side_apply` merges it."""
