"""This machine: its programs, processes, control groups and networks, and the record of what is ours."""
