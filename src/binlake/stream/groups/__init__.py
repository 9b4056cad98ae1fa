"""Events to transactions: grouping, XA, savepoints, fragments, relay logs."""
