"""Admission of the garden's kinds: when a shoot may move, and what must hold before anybody acts on it.

The rules are pure functions of objects. Webhooks apply them to writes, and controllers apply them again before they
act, because webhooks may be unavailable.
"""
