"""Servers of a manager: webhooks with their certificate, health and metrics."""
