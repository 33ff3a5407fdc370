"""Bare metal of a management cluster: its kinds, its inventory file, and its selection by machine configs."""
