"""Things to install: manifests and images."""
