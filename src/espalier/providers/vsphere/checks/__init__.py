"""Checks against a vCenter: the objects that specs name exist, and the account may use them.

`questions` is asked, `vcenter` answers over the network, `findings` judges, `controller` reports.
"""
