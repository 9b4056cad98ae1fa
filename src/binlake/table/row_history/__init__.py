"""The history of a row: its changes under all keys that it had."""
