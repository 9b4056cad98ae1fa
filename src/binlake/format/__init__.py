"""What the servers' format says, as tables. Imports nothing of this package."""
