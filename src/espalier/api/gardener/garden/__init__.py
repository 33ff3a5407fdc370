"""Kinds of a garden (`core.gardener.cloud`, `security.gardener.cloud`)."""
