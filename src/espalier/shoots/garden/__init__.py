"""The garden: it gives shoots a seed, counts who owns them, and decides when a seed is given up."""
