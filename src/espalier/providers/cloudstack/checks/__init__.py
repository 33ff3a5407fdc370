"""Checks of CloudStackDatacenterConfigs and CloudStackMachineConfigs against the API of each availability zone.

Decision 0107 gives the reasons.
"""
