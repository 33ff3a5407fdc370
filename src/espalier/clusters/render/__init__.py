"""Renders Cluster API objects from a design. Pure, typed, one object per function."""
