"""Reports of machines: versions, progress, problems."""
