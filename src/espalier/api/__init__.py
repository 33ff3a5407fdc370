"""Typed kinds, their schemas, defaults and validation. Pure; imports nothing of Espalier."""
