"""Images of a release for sites without the internet: listed, downloaded, imported into a registry, checked there."""
