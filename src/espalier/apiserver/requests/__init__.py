"""Requests: what is asked, selectors, and bodies."""
