"""An archive: the raw logs of servers in a directory or a store, and the state of each copy."""
