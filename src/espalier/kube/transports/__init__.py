"""Transports: requests and responses as values, over HTTP or within this process."""
