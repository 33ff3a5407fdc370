"""The parts that all of EKS Anywhere's kinds have in common."""

from __future__ import annotations

from espalier.api.eksa.vocabulary.group import GROUP, VERSION
from espalier.api.kinds import KindsOf
from espalier.api.moves import MOVED

eksa_kind = KindsOf(GROUP, VERSION, ("eks-anywhere",), MOVED, status=True)
