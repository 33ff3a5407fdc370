"""Flows as data: graphs of named tasks, each of which observes objects before it acts."""
