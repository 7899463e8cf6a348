"""Regress understanding and generation on coverage and precision, and draw what follows."""
