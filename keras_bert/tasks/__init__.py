"""Tasks: an encoder with a head, for `model.fit`."""
