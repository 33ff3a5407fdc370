"""HTML of the views: everything that is shown is escaped here, by htpy (decision 0217)."""
