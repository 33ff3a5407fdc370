"""Checks of CloudStackDatacenterConfigs and CloudStackMachineConfigs against the API of each availability zone.

Decision 0096 gives the reasons.
"""
