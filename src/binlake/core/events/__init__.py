"""Event headers, checksums, GTIDs and packets; the transactions of a window as columns."""
