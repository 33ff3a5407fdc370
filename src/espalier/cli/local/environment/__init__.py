"""The local environment: its processes, assembled from the components."""
