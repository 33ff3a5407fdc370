"""One package per infrastructure provider. Only `registry` and `kinds` know them; they do not know each other."""
