"""The tables that a mirror follows: which ones are wanted, their first copy, and what the lake keeps about them."""
