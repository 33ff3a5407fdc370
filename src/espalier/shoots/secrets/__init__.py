"""Secrets of a shoot: those that are generated once and carried from seed to seed, and those that each seed derives."""
