"""Releases: what a manifest, Bundles and EKS Distro's releases name."""
