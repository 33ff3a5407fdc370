"""Definitions for API servers and pages for people, generated from the declarations of kinds."""
