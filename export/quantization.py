"""Quantization in all formats: tolerances, and layers that stay float32."""

import re
from collections.abc import Collection, Mapping, Sequence

from keras_bert.errors import InputError, closest
from keras_bert.export.artifact_checks import FLOAT32_TOLERANCE

TOLERANCES = {"none": FLOAT32_TOLERANCE, "float16": 0.02, "dynamic": 0.25, "int8": 0.5}
"""Difference that `check` allows for each quantization. For the small types it only excludes broken
files: `verify` measures the loss on real texts."""

_COUNTED = r"(_\d+)?"  # Keras and TensorFlow count layers of one name


def check_quantization(quantize: str, known: Collection[str], keep_float: Sequence[str]) -> None:
    """Refuses a quantization that a format does not have.

    Raises:
        InputError: if the quantization is unknown, or `keep_float` is a single string or is given
            without a quantization.
    """
    if quantize not in known:
        raise InputError(
            f"There is no quantization {quantize!r}.{closest(str(quantize), known)} "
            f"Choose one of {', '.join(known)}."
        )
    if isinstance(keep_float, str):
        raise InputError(f"keep_float is {keep_float!r}, but must be a list: [{keep_float!r}].")
    if keep_float and quantize == "none":
        raise InputError("keep_float is for quantized files; give quantize, too, or leave it out.")


def kept_float(layers: Sequence[str], places: Mapping[str, Sequence[str]]) -> list[str]:
    """Returns the names that belong to layers that are not quantized.

    Args:
        layers: parts of places, with `*` for any part of a name: "embeddings",
            "layer_0/attention", "*layer_norm".
        places: places in the model of each name, such as "encoder/layer_0/attention/query/kernel".

    Returns:
        The names, in the order of `places` for each layer.

    Raises:
        InputError: if there is no such layer.
    """
    kept: dict[str, None] = {}
    for layer in layers:
        pattern = _pattern(layer)
        found = [name for name, where in places.items() if any(map(pattern.search, where))]
        if not found:
            known = sorted({part for where in places.values() for p in where for part in _parts(p)})
            raise InputError(
                f"keep_float names {layer!r}, but there is no such layer; there are "
                f"{', '.join(known)}."
            )
        kept |= dict.fromkeys(found)
    return list(kept)


def _pattern(layer: str) -> re.Pattern[str]:
    """Compiles a layer to a pattern for places.

    `layer_0/attention` finds `classifier/encoder/layer_0_1/attention_1/query/MatMul`.
    """
    parts = [re.escape(part).replace(r"\*", "[^/]*") for part in layer.strip("/").split("/")]
    return re.compile("(^|/)" + "/".join(part + _COUNTED for part in parts) + "(/|$)")


def _parts(place: str) -> list[str]:
    """Returns the layers on the way to a place."""
    return [re.sub(r"(?<=.)_\d+$", "", part) for part in place.split("/")[:-1]]
