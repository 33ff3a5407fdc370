"""The validation rules. Pure: return violations and warnings for a Cluster (and its old version)."""
