"""The nouns that travel between the rooms: positions, GTID sets, plans, options, counts."""
