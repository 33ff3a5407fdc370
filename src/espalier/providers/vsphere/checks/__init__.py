"""Checks against a vCenter: what specs name is there, and the account may use it.

`questions` is asked, `vcenter` answers over the network, `findings` judges, `controller` reports.
"""
