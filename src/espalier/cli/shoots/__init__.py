"""Commands about shoots and seeds of a garden."""
