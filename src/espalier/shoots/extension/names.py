"""Names that extensions use in their reports."""

LEASE_VALID = "LeaseValid"
"""Condition of an extension resource: False while it is left alone, because its seed may have lost the shoot."""
