"""The page about logs that `binlake ui` serves, and that `binlake stats --html` writes into one file."""
