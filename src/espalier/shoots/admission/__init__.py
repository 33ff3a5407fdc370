"""Admission of the garden's kinds: when a shoot may move, and what must hold before anybody acts on it.

The rules are pure functions of objects. Webhooks ask them about writes, and controllers once more before they act:
webhooks may be away.
"""
