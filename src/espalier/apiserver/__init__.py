"""The embedded API server: a core without I/O over a store, housekeeping, and the HTTP shell around it."""
