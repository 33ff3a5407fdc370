"""Untrusted YAML and JSON as trees, within limits, paths into them, and YAML that we write."""
