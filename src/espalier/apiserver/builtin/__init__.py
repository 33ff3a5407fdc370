"""Built-in kinds: schemas, rules beyond them, and print columns."""
