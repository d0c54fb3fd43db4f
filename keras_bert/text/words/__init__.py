"""Words and their places in a text, in Python and in the graph."""
