"""Garden, seeds and shoots: control planes of shoots run in seeds, and move between them (Gardener's kinds)."""
