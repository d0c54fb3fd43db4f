"""Encoder plus head, for `model.fit`."""
