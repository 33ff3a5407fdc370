"""The objects of a cluster: their names, groups and links, and what all providers' have."""
