"""The errors this package raises on purpose: each says what was found, expected and to be done."""

import re


class InputError(ValueError):
    """A value, file or option given by the user cannot be used."""


class CheckpointError(InputError):
    """A file of weights, or the directory it stands in, cannot be used."""


class LostWorkerError(InputError):
    """A worker or a data host is gone; once all are there, the run goes on if it is begun again."""


def first_sentence(error: Exception) -> str:
    """What an error of another library says, to be part of a sentence of ours."""
    return re.split(r"\.\s|\n", str(error).strip())[0].rstrip(".") or type(error).__name__
