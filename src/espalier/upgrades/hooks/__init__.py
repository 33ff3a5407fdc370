"""The runtime hooks front end: Cluster API asks whether a change can be made in place, and has it made.

Hooks accept, refuse or report, and know nothing between two calls: what is asked for is in the request and in the
objects of the management cluster, what is under way in NodeUpgrades. Any replica answers.
"""
