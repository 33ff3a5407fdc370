"""Effects of a change of a Cluster: what a manager would write, and what becomes of machines. Pure."""
