"""Commands about management clusters themselves; those about their clusters are in `clusters/`."""
