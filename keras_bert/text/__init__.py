"""Strings to ids, in the graph."""
