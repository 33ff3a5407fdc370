"""Secrets of a shoot: those that are generated once and persisted in the ShootState, and those derived in each seed."""
