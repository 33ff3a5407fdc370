"""Output of commands: tables, formats, progress, and questions."""
