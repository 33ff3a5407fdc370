"""The door: commands and settings, and the one place where a process is wired together."""
