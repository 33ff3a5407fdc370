"""Planning: which objects should exist, and which differ in the fields that we own. Pure."""
