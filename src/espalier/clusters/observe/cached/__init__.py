"""Content of caches between reconciles: the fields that are ours, and the inputs of rendering."""
