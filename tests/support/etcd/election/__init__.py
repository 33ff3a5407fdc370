"""All orders of events of an election, up to bounds. `explorer.py` goes through them, `system.py` says what happens."""
