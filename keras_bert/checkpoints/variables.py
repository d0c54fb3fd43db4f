"""The names of a model's weights, whatever the user called the model."""

from typing import Any

import keras

from keras_bert.layers.encoder import Encoder


def named_variables(model: keras.Model) -> dict[str, Any]:
    """Name to Keras variable, for every weight of an encoder or task.

    The encoder's weights are `encoder/…`, for instance `encoder/layer_0/attention/query/kernel`;
    those of a head begin with the head's name. Names are the same for an encoder on its own and
    inside any task.
    """
    encoder = model if isinstance(model, Encoder) else model.encoder
    # The embeddings may be another encoder's, and then have its name in their paths.
    stems = {id(weight): ("encoder", encoder.path) for weight in encoder.weights}
    for weight in encoder.embeddings.weights:
        stems[id(weight)] = ("encoder/embeddings", encoder.embeddings.path)
    names = {}
    for variable in model.weights:
        ours, theirs = stems.get(id(variable), ("", ""))
        names[ours + variable.path.removeprefix(theirs)] = variable
    return names
