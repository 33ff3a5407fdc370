"""Release objects, and the digests of their content."""
