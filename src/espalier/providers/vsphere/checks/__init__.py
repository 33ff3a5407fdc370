"""Checks against a vCenter: the objects that specs name exist, and the account may use them.

`questions` defines queries and answers, `vcenter` answers over the network, `findings` finds problems in the answers,
and `controller` combines these for `clusters/report/checks/`.
"""
