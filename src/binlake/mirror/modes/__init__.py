"""What the rows of a lake table are: the modes of a mirror."""
