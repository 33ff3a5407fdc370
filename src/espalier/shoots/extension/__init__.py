"""A library for authors of extensions: an actuator with four methods, and everything around it.

`docs/extensions.md` is the page for authors.
"""

from espalier.shoots.extension.actuator import Actuator, Request, Result, StatelessActuator
from espalier.shoots.extension.attempt import Extension, by_namespace
from espalier.shoots.extension.controller import controller_of, leases_of
from espalier.shoots.extension.dependents import Dependents, data_digest, has_digest, with_digest
from espalier.shoots.extension.errors import OperationFailed, StateInvalid, StateTooLarge, Stopped
from espalier.shoots.extension.lease import Lease, Leases
from espalier.shoots.extension.operation import operation_of
from espalier.shoots.extension.saved_state import SavedState

__all__ = [
    "Actuator",
    "Dependents",
    "Extension",
    "Lease",
    "Leases",
    "OperationFailed",
    "Request",
    "Result",
    "SavedState",
    "StateInvalid",
    "StateTooLarge",
    "StatelessActuator",
    "Stopped",
    "by_namespace",
    "controller_of",
    "data_digest",
    "has_digest",
    "leases_of",
    "operation_of",
    "with_digest",
]
