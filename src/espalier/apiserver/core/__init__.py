"""The core without I/O: from a request to an answer, and housekeeping."""
