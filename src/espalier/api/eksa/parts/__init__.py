"""Parts of specs, each with its rules for CRDs."""
