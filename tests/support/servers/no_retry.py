"""Clients that try once: tests see the first failure."""

from __future__ import annotations

from espalier.kube.transports.retry import Retry

NO_RETRY = Retry(attempts=1)
