"""Rules about control planes: an API server with other values does not start."""
