"""The rules of admission. Pure: from a Cluster (and the one before) to violations and warnings."""
