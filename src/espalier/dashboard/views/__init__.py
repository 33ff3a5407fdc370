"""Views of the pages, which follow caches."""
