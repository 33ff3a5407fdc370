"""Renders Cluster API objects from a render input. Pure, typed, one object per function."""
