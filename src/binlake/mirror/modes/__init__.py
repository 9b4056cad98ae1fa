"""The modes of a mirror: the meaning of the rows of a lake table."""
