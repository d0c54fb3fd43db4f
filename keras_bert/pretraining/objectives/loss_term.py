"""One of the losses of an objective."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

Sums: TypeAlias = Callable[[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]], Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Head:
    """A loss that is a sum over predictions, and how it is told.

    Args:
        name: in the log.
        sums: (outputs, labels, weights), each by key, to loss, right predictions and predictions.
        key: of this head's weights in a batch, and of its labels.
        over: what is predicted: "slots" (masked tokens), "tokens" (all but padding) or
            "examples".
        labelled: whether a batch holds labels for it.
        weight: in the total loss; 0 for a head that is only watched, which has no key.
        accuracy: whether right predictions are counted.
        perplexity: whether it is that of a language, so that its perplexity is told.
        part: of the model that it is the loss of, if that is not among what is kept.
    """

    name: str
    sums: Sums
    key: str = ""
    over: str = "slots"
    labelled: bool = False
    weight: float = 0.0
    accuracy: bool = True
    perplexity: bool = False
    part: str = ""
