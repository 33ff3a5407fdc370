"""Field ownership: field sets, server-side apply, and patches."""
