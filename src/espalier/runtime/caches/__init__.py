"""Caches: mirrors of objects, which all readers share."""
