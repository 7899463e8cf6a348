"""From measurements to the sweep's tables."""
