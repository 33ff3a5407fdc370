"""Tasks of the gardenlet's flows: each observes the scope, and says what has to be done."""
