"""Published documents about kinds: discovery and OpenAPI; and the definitions of custom kinds."""
