"""Commands about clusters: create, upgrade, delete, plan, validate, describe."""
