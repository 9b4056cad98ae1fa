"""The command line: one thin module per command, and their common parts."""
