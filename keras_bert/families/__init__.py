"""Families of encoders: each file is data, imported when the family is first used.

The name of a family is the `family` of an `EncoderConfig` and the `model_type` of Hugging Face's
transformers.
"""

import importlib
from collections.abc import Iterator, Mapping
from types import MappingProxyType, ModuleType
from typing import Any, NamedTuple

from keras_bert.config import EncoderConfig, register_presets

__all__ = ["FAMILIES", "EncoderConfig", "HeadSpec", "Row", "in_layers"]

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
)

Row = tuple[str, str, str]
"""Kind of a tensor, our name and the other library's name."""


def in_layers(place: str, *parts: Row) -> tuple[Row, ...]:
    """Returns rows of all layers; the names of a layer's parts follow `place`, which has {i}."""
    return tuple(
        (kind, f"encoder/layer_{{i}}/{ours}", place + theirs) for kind, ours, theirs in parts
    )


class HeadSpec(NamedTuple):
    """One of our tasks in Hugging Face's transformers.

    Args:
        ending: end of the class's name, "ForMaskedLM".
        rows: tensors of the head.
        pooled: whether the encoder of the class has the pooler.
        dropout: field of the configuration with the rate before the logits; "" if the head has no
            such field.
        arguments: arguments of our task's constructor that all models of the family share.
        fixed: fields of the configuration with the only values that our head can have.
    """

    ending: str
    rows: tuple[Row, ...] = ()
    pooled: bool = False
    dropout: str = ""
    arguments: Mapping[str, Any] = MappingProxyType({})
    fixed: Mapping[str, Any] = MappingProxyType({})


class _Families(Mapping[str, ModuleType]):
    """Names of families to their modules."""

    def __getitem__(self, name: str) -> ModuleType:
        if name not in _NAMES:
            raise KeyError(name)
        return importlib.import_module(f"{__name__}.{name.replace('-', '_')}")

    def __iter__(self) -> Iterator[str]:
        return iter(_NAMES)

    def __len__(self) -> int:
        return len(_NAMES)


class _Presets(Mapping[str, dict[str, Any]]):
    """Names of all families' presets to fields of an `EncoderConfig`."""

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
