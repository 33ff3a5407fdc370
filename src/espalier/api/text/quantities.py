"""Quantities, as Kubernetes writes amounts of resources: `250m`, `1.5Gi`, `2e3`."""

from __future__ import annotations

import re
from decimal import Decimal

QUANTITY = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?\d+)?")

FACTORS: dict[str, Decimal] = {
    **{unit: Decimal(10) ** power for unit, power in zip("numkMGTPE", (-9, -6, -3, 3, 6, 9, 12, 15, 18), strict=True)},
    **{f"{unit}i": Decimal(1024) ** power for power, unit in enumerate("KMGTPE", 1)},
}
"""Factors of numbers, by the unit behind them."""


def amount(text: str) -> Decimal:
    """The number for a quantity. Raises `decimal.InvalidOperation` for an invalid one."""
    for length in (2, 1):
        if (power := FACTORS.get(text[-length:])) is not None:
            return Decimal(text[:-length]) * power
    return Decimal(text)
