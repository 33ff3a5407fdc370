"""Manifests: the kinds that they may have, their schemas, and what EKS Anywhere's command also reads."""
