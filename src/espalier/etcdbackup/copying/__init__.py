"""Copies of backups from one store to another: chosen, verified while they go through, and finished by whoever runs it
again. Nobody else is told of it: the election of an owner has its own objects for that.
"""
