"""The entry points: commands and settings, and the one place where a process is wired together."""

import gc

# Before all other imports: scanning what they create, which stays, took a tenth of a command's time.
gc.set_threshold(200_000)
