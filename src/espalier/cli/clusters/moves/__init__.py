"""`espalier move`."""
