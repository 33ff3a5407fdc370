"""From a design to the objects of Cluster API. Pure, typed, one object per function."""
