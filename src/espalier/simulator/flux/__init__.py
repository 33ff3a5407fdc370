"""A stand-in for Flux on a laptop: it fetches Git repositories and applies folders of them, by Flux's own kinds.

It knows a part of their fields, refuses the others by name, and says in its conditions that it is a stand-in. What it
applies, labels and records is what Flux would, so that Flux can take over, and the other way round.
"""
