"""Shared by all commands: flags, connections, output, progress, failures, and the state on this machine."""
