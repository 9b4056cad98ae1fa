"""Events that only MySQL writes."""
