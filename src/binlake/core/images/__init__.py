"""Images of rows to columns: layouts, steps over images, conditions on them."""
