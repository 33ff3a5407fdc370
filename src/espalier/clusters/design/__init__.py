"""Design: what the objects of a cluster are rendered from, and rendering itself. Pure."""
