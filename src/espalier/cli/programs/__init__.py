"""The programs that run controllers, and the components of which each is made."""
