"""Readers of files with examples, one for each kind of data."""
