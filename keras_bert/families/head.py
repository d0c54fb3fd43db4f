"""What transformers calls a task of a family."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

Row = tuple[str, str, str]


class Head(NamedTuple):
    """One of our tasks as transformers has it.

    Args:
        ending: of the name of its class, "ForMaskedLM".
        rows: kind, our name and theirs of the head's tensors.
        pooled: whether its encoder has the pooler.
        dropout: the field of their configuration with the rate before the logits; "" where the
            head has none of its own.
        arguments: of our task's constructor that are the same for all models of the family.
        fixed: fields of their configuration with the only values that our head can have.
    """

    ending: str
    rows: tuple[Row, ...] = ()
    pooled: bool = False
    dropout: str = ""
    arguments: Mapping[str, Any] = MappingProxyType({})
    fixed: Mapping[str, Any] = MappingProxyType({})
