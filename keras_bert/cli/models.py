"""Models for commands that need one of a kind."""

from typing import Any

from keras_bert.errors import InputError


def load_classifier(path: str) -> Any:
    """A `SequenceClassifier` with a preprocessor.

    Raises:
        InputError: if there is no model, or it is another one.
    """
    import keras_bert

    model = keras_bert.load(path)
    if not isinstance(model, keras_bert.SequenceClassifier):
        raise InputError(
            f"{path} is a {type(model).__name__}, not a classifier; make one of it with "
            "keras-bert finetune."
        )
    if model.preprocessor is None:
        raise InputError(f"{path} has no vocabulary beside it, so it cannot take texts.")
    return model
