"""What a mirror says of itself: status, metrics, the pulse that other processes read."""
