"""Families of encoders: each module holds the data of one family, and is imported when needed.

The name of a family is the `family` of an `EncoderConfig` and the `model_type` of Hugging Face's
transformers.
"""

import importlib
from collections.abc import Iterator, Mapping
from types import MappingProxyType, ModuleType
from typing import Any, NamedTuple

from keras_bert.config import EncoderConfig, register_presets

__all__ = ["FAMILIES", "EncoderConfig", "HeadSpec", "Row", "in_layers", "rotary_base"]

_NAMES = (
    "bert",
    "roberta",
    "xlm-roberta",
    "camembert",
    "distilbert",
    "albert",
    "electra",
    "deberta",
    "deberta-v2",
    "ernie",
    "megatron-bert",
    "xlm-roberta-xl",
    "mpnet",
    "nomic_bert",
    "gte",
    "jina_embeddings_v3",
    "modernbert",
    "eurobert",
)

Row = tuple[str, str, str]
"""Kind of a tensor, its name in this package, and its name in the other library."""


def in_layers(place: str, *parts: Row) -> tuple[Row, ...]:
    """Returns the rows of all layers.

    Args:
        place: prefix of the other library's names, with {i} for the layer's index.
        *parts: rows of one layer, with names that begin inside the layer.
    """
    return tuple(
        (kind, f"encoder/layer_{{i}}/{ours}", place + theirs) for kind, ours, theirs in parts
    )


def rotary_base(values: Mapping[str, Any], default: float, kind: str = "") -> float:
    """Returns the base of rotary positions in transformers' configuration.

    Args:
        values: the configuration. `rope_scaling`, the older name, replaces `rope_parameters`.
        default: base to return if the configuration has none.
        kind: kind of layer, if each kind has its own parameters.

    Raises:
        ValueError: if the positions are scaled, which an `EncoderConfig` cannot express.
    """
    rope = values.get("rope_scaling") or values.get("rope_parameters") or {}
    rope = (rope.get(kind) or {}) if kind and "rope_scaling" not in values else rope
    name = rope.get("rope_type", rope.get("type", "default"))
    if name != "default":
        raise ValueError(f"rope_type {name!r} is not supported, only 'default' is")
    return float(rope.get("rope_theta") or values.get("rope_theta") or default)


class HeadSpec(NamedTuple):
    """Head of a task in Hugging Face's transformers.

    Args:
        ending: end of the transformers class's name, for example "ForMaskedLM".
        rows: tensors of the head.
        pooled: whether the encoder inside this class has the pooler.
        dropout: field of `config.json` with the dropout rate before the logits; "" if the head has
            no such field.
        arguments: arguments of the task's constructor that all models of the family share.
        fixed: fields of `config.json` for which the head supports one value only, and this value.
        pooling: field of `config.json` with the pooling; "" if there is none.
        poolings: mode of `TextPooling` for each value of this field; the first is the default.
    """

    ending: str
    rows: tuple[Row, ...] = ()
    pooled: bool = False
    dropout: str = ""
    arguments: Mapping[str, Any] = MappingProxyType({})
    fixed: Mapping[str, Any] = MappingProxyType({})
    pooling: str = ""
    poolings: Mapping[str, str] = MappingProxyType({"cls": "first", "mean": "mean"})


class _Families(Mapping[str, ModuleType]):
    """Module of each family, by the family's name."""

    def __getitem__(self, name: str) -> ModuleType:
        if name not in _NAMES:
            raise KeyError(name)
        return importlib.import_module(f"{__name__}.{name.replace('-', '_')}")

    def __iter__(self) -> Iterator[str]:
        return iter(_NAMES)

    def __len__(self) -> int:
        return len(_NAMES)


class _Presets(Mapping[str, dict[str, Any]]):
    """Fields of an `EncoderConfig` for each preset of all families, by the preset's name."""

    def __getitem__(self, name: str) -> dict[str, Any]:
        for family in FAMILIES.values():
            if name in family.PRESETS:
                return family.PRESETS[name]
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (name for family in FAMILIES.values() for name in family.PRESETS)

    def __len__(self) -> int:
        return len([*self])


FAMILIES = _Families()
register_presets(_Presets())
