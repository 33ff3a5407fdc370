"""The runtime hooks front end: Cluster API asks whether a change can be made in place, and requests it.

Hooks accept, refuse or report. They keep no state between calls: the request and the objects of the management cluster
have the goal, NodeUpgrades the progress. Any replica can answer.
"""
