"""Flows as data: graphs of named tasks, each of which observes the world before it acts."""
