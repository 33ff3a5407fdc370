"""The gardenlet: one per seed, it creates, moves and deletes the control planes of the shoots that its seed has."""
