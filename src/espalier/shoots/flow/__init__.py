"""Flows as data: graphs of named tasks, each of which looks at the world before it acts."""
