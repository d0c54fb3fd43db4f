"""Names and number of the labels of a task."""

from collections.abc import Sequence

from keras_bert.errors import InputError
from keras_bert.surrogates import without_surrogates


def resolve_labels(num_labels: int | None, labels: Sequence[str] | None) -> tuple[str, ...]:
    """Returns the labels' names by id, from their number, their names, or both.

    Raises:
        InputError: if neither is given, they contradict each other, or names repeat or are no valid
            text.
    """
    if labels is None:
        if not isinstance(num_labels, int) or num_labels < 1:
            raise InputError(f"num_labels is {num_labels!r}, but must be 1 or more.")
        return tuple(str(index) for index in range(num_labels))
    names = tuple(labels)
    if num_labels not in (None, len(names)):
        raise InputError(f"num_labels is {num_labels}, but {len(names)} labels are named.")
    if not names or len(set(names)) != len(names):
        raise InputError(f"The labels {list(names)} must be one or more different names.")
    broken = next((name for name in names if without_surrogates(str(name)) != str(name)), None)
    if broken is not None:
        raise InputError(f"The label {broken!r} has a lone surrogate, so no file can hold it.")
    return names
