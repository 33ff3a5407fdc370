"""Container images made without Docker: of the manager, and of the upgrader for each version."""
