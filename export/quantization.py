"""Quantization in all formats: tolerances of the checks, and layers that stay float32."""

import re
from collections.abc import Collection, Mapping, Sequence

from keras_bert.errors import InputError, closest
from keras_bert.export.artifact_checks import FLOAT32_TOLERANCE

TOLERANCES = {"none": FLOAT32_TOLERANCE, "float16": 0.02, "dynamic": 0.25, "int8": 0.5}
"""Difference that `check` allows for each quantization. For quantized files, the check only finds
broken files: `verify` measures the loss of accuracy on real texts."""

_COUNTED = r"(_\d+)?"  # Keras and TensorFlow number layers of the same name


def check_quantization(quantize: str, known: Collection[str], keep_float: Sequence[str]) -> None:
    """Checks that a format has a quantization, and that `keep_float` can be used with it.

    Raises:
        InputError: if the format does not have the quantization, or `keep_float` is a single
            string or is given without a quantization.
    """
    if quantize not in known:
        raise InputError(
            f"There is no quantization {quantize!r}.{closest(str(quantize), known)} "
            f"Choose one of {', '.join(known)}."
        )
    if isinstance(keep_float, str):
        raise InputError(f"keep_float is {keep_float!r}, but must be a list: [{keep_float!r}].")
    if keep_float and quantize == "none":
        raise InputError(
            "keep_float is only for quantized files; give quantize, too, or leave keep_float out."
        )


def kept_float(layers: Sequence[str], places: Mapping[str, Sequence[str]]) -> list[str]:
    """Returns the names of the weights or operators' results whose layers stay float32.

    Args:
        layers: parts of paths, with `*` for any text: "embeddings", "layer_0/attention",
            "*layer_norm".
        places: for each name of a weight or result, its paths in the model, such as
            "encoder/layer_0/attention/query/kernel".

    Returns:
        Names of the first layer in the order of `places`, then of the next layer, each name once.

    Raises:
        InputError: if `layers` names a layer that the model does not have.
    """
    kept: dict[str, None] = {}
    for layer in layers:
        pattern = _pattern(layer)
        found = [name for name, where in places.items() if any(map(pattern.search, where))]
        if not found:
            known = sorted({part for where in places.values() for p in where for part in _parts(p)})
            raise InputError(
                f"keep_float names {layer!r}, but the model has no such layer. It has "
                f"{', '.join(known)}."
            )
        kept |= dict.fromkeys(found)
    return list(kept)


def _pattern(layer: str) -> re.Pattern[str]:
    """Returns the pattern that finds a layer in paths.

    `layer_0/attention` finds `classifier/encoder/layer_0_1/attention_1/query/MatMul`.
    """
    parts = [re.escape(part).replace(r"\*", "[^/]*") for part in layer.strip("/").split("/")]
    return re.compile("(^|/)" + "/".join(part + _COUNTED for part in parts) + "(/|$)")


def _parts(place: str) -> list[str]:
    """Returns the layers in a path."""
    return [re.sub(r"(?<=.)_\d+$", "", part) for part in place.split("/")[:-1]]
