"""Names of what an extension says of itself."""

LEASE_VALID = "LeaseValid"
"""Condition of an extension resource: False while it is left alone, because its seed may have lost the shoot."""
