"""The errors this package raises on purpose: each says what was found, expected and to be done."""

import re

_WHERE_IN_A_GRAPH = re.compile(r"Graph execution error:|Detected at node|<stack traces|\s")
"""Lines before what TensorFlow has to say."""


class InputError(ValueError):
    """A value, file or option given by the user cannot be used."""


class CheckpointError(InputError):
    """A file of weights, or the directory it stands in, cannot be used."""


class LostWorkerError(InputError):
    """A worker or a data host is gone; once all are there, the run goes on if it is begun again."""


def first_sentence(error: Exception) -> str:
    """What an error of another library says, to be part of a sentence of ours."""
    lines = str(error).strip().splitlines()
    said = next((line for line in lines if line and not _WHERE_IN_A_GRAPH.match(line)), "")
    return re.split(r"\.\s", said)[0].rstrip(".") or type(error).__name__
