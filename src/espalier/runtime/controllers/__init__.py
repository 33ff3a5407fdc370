"""Controllers: from a changed object to a reconcile, and from its result to writes and Events."""
