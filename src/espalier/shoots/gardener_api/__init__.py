"""A garden whose API server is Gardener's: what has another form there than in a garden of ours."""
