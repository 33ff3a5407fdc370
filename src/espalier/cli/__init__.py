"""The door: commands and settings, and the one place where a process is wired together."""

import gc

# Before all other imports: to look time and again through what they make took a fifteenth of a command, and found
# nothing, for modules stay.
gc.set_threshold(50_000)
