"""The state of a member, and the requests that read and change it. Pure."""
