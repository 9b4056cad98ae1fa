"""Values that all packages share: positions, GTID sets, plans, options, counts."""
