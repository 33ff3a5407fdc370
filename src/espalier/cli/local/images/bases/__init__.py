"""The base of images: Debian's packages, locked."""
