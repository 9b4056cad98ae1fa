"""Growing logs, read in steps: the logs of a directory or server, positions in them, the plan of the next batch."""
