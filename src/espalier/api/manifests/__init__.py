"""Manifests: the kinds that they may have, their schemas, what EKS Anywhere's command also reads, and their images."""
