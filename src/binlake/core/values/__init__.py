"""Single values to numbers and to text: decimals, times, binary JSON."""
