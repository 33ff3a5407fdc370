"""Shoots: clusters whose control planes run in seeds, and move between them."""
