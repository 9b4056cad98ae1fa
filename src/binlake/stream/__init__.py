"""From windows of events to transactions: grouping, filters, splits, verification, views."""
