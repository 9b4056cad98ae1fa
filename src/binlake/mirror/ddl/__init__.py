"""What DDL statements of the log do to lake tables."""
