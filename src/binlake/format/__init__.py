"""The servers' binary log format as tables. Imports nothing of this package."""
