"""The errors this package raises on purpose: each says what was found, expected and to be done."""


class InputError(ValueError):
    """A value, file or option given by the user cannot be used."""


class CheckpointError(InputError):
    """A file of weights, or the directory it stands in, cannot be used."""
