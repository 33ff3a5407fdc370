"""The entry points: commands and settings, and the one place where a process is wired together."""

import gc

# Before all other imports. To look time and again through what they make, which stays, took a tenth of a command.
gc.set_threshold(200_000)
