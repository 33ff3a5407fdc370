"""Effects of a change on a machine: nothing, an update in place, or another machine. Pure."""
