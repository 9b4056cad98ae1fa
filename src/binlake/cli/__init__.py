"""The command line: one thin module per command, and what they share."""
