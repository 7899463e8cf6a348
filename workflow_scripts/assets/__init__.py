"""Weights, data sets and benchmark files."""
