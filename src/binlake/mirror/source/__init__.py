"""The server's side of a mirror: the check of its settings, its tables, their rows, and the positions that belong to them."""
