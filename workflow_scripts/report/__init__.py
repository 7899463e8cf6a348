"""The page of a sweep that people read."""
