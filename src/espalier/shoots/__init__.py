"""Control planes of shoots: a garden, seeds, and the flows that create, move and delete what runs there."""
