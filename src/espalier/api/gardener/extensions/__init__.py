"""Kinds that extensions of a seed act on (`extensions.gardener.cloud`)."""
