"""Contents of the pages. Pure: from the objects of caches."""
