"""Words of EKS Anywhere's kinds: group, keys, reasons, and sentences of refusals."""
