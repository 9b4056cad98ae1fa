"""The rows of a live server's tables: in chunks, each read at a known position in the log of the server."""
