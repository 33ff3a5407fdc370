#!/usr/bin/env bash
# Library:       lightkube 1.0.1 (a Kubernetes client in Python), `lightkube.utils.quantity.parse_quantity`.
# Guess:         it reads every quantity that the API writes, as the function of the `kubernetes` client 37.0.2 does.
# What happens:  it knows neither n (nano) nor u (micro), nor an exponent with a capital E. Output seen:
#                  100m      kubernetes 0.100        lightkube 0.100
#                  4217133n  kubernetes 0.004217133  lightkube ValueError: Invalid unit suffix: n
#                  1500u     kubernetes 0.001500     lightkube ValueError: Invalid unit suffix: u
#                  1E3       kubernetes 1E+3         lightkube ValueError: Invalid unit suffix: E3
# For users:     metrics-server reports CPU use in n, so a program that sums up `kubectl top` with lightkube works with
#                requests and limits in all its tests and fails at the first NodeMetrics.
# Espalier:      uses neither library; it has no guard because it needs none.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check kubernetes==37.0.2 lightkube==1.0.1
"$work/venv/bin/python" - <<'E'
import sys

import kubernetes.utils.quantity
import lightkube.utils.quantity

EXPECTED = {
    "100m": "0.100",
    "4217133n": "ValueError: Invalid unit suffix: n",
    "1500u": "ValueError: Invalid unit suffix: u",
    "1E3": "ValueError: Invalid unit suffix: E3",
}
for quantity, expected in EXPECTED.items():
    reference = kubernetes.utils.quantity.parse_quantity(quantity)
    try:
        result = str(lightkube.utils.quantity.parse_quantity(quantity))
    except ValueError as error:
        result = f"ValueError: {error}"
    print(f"{quantity:9} kubernetes {reference!s:12} lightkube {result}")
    if result != expected:
        sys.exit(f"lightkube reads {quantity} otherwise now")
E
