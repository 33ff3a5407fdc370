"""`espalier plan`, and its text."""
