"""A page about logs: what `binlake ui` serves, and `binlake stats --html` writes into one file."""
