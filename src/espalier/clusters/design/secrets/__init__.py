"""Credentials in users' files and Secrets, and the permission to send them."""
