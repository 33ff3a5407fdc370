"""Fields that are ours, and when they are corrected."""
