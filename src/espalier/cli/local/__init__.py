"""The local environment and the demos."""
