"""The Common Expression Language: expressions, and the values and fields that they read."""
