"""Words that Gardener's kinds share: operations, conditions, reasons, and keys."""
