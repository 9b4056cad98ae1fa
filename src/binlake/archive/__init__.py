"""An archive: the raw logs of servers in a directory or a store, and what is known about them."""
