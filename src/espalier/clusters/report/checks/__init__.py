"""Checks of datacenter and machine configs against an infrastructure's API, for the controllers of providers."""
