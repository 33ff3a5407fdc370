"""Schemas of kinds: structure, validation, pruning, defaults, and rules in CEL."""
