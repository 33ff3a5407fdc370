"""Tasks of the gardenlet's flows: each looks at the scope, and says what is to be done."""
