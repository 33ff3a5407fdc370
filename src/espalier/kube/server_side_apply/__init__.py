"""Server-side apply: who owns which fields of an object, and what applying a configuration makes of it."""
