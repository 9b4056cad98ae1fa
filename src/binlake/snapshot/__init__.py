"""The rows that a live server's tables have now, and the positions in its log that belong to them."""
