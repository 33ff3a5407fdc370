"""Tasks of the gardenlet's flows: each compares the scope with its goal, and returns a verdict."""
