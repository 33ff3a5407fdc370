"""Rules of Shoots. Pure."""
