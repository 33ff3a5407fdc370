"""Moves clusters from one management cluster to another, object by object. Nothing outside of both is touched.

Shoots move between seeds instead: `shoots/gardenlet/` hands their control planes over.
"""
