"""The server's side of a mirror: its tables, their rows, and the positions that belong to them."""
