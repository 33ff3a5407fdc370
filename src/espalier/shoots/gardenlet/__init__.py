"""The gardenlet, one for each seed: it creates, moves and deletes the control planes of the seed's shoots."""
