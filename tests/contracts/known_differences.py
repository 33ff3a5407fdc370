"""Strange requests that the embedded server answers otherwise than kube-apiserver, on purpose or for want of need."""

from __future__ import annotations

OTHER_ANSWERS = frozenset(
    {
        "a method of nobody",  # the parser of HTTP refuses methods that it does not know, as text
        "two documents of YAML",  # kube-apiserver takes the first and says nothing of the rest
        "protobuf for a custom object",  # kube-apiserver breaks off the connection
        "an answer as a list's metadata",  # one form serves both
        "a list as an object's metadata",  # one form serves both
        "a pod for an account whose name is none",  # there is no admission of service accounts here
    }
)
"""With another status."""

OTHER_WORDS = frozenset(
    {
        "schemas of a group that is not there",
        "an integer beyond 64 bits",
        "text after an object",
        "broken YAML",
        "protobuf that is none",
        "protobuf without its first bytes",
        "an answer as a page",
        "an answer as an image, or as nothing",
        "a manager whose name can't be printed",
        "a place to go on that is none",
        "a place to go on, and a version",
        "a place to go on, and version 0",
        "a watch from long ago",
        "a JSON patch that breaks the type",
        "a patch of another kind",
        "a patch of another version",
        "a patch of the uid",
        "an apply of broken YAML",
        "an update of another uid",
        "a custom scale below zero",
        "a custom scale of another kind",
        "a custom scale patched below zero",
        "one that it allowed once",
        "a container without name and image",
        "two mounts at one place",
        "two volumes of one name",
        "a projected token without a path",
        "a pod whose container changes",
        "a pod whose image goes",
        "a Service of one port twice",
        "a taint that is none",
        "a Deployment of a strategy that is none",
        "a custom object of another type",
        "a custom object below its minimum",
        "a custom spec that is text",
        "a definition of two stored versions",
        "a definition that stores nothing",
        "a definition without a schema",
        "a pattern that is none",
        "a scale without its path",
        "a plural that is none",
    }
)
"""With the same status, in other words: mostly where kube-apiserver prints Go, or its own parts."""
