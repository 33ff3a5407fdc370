"""Representations: errors, JSON, protobuf, options of a query."""
