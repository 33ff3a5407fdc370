"""The annotation front end: marks of owners become upgrades."""
