"""A garden and its seeds in one process, and the shoot that moves between them."""
