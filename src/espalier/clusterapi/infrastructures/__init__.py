"""Infrastructure providers, as values, and the templates of their machines."""
