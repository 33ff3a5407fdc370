"""A management cluster's own life: created by a bootstrap, moved into itself, upgraded and deleted from outside."""
