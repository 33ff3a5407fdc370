"""Leadership: one process acts, and all others are kept from writing."""
