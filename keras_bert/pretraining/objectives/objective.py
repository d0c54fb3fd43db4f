"""An objective is a plan of examples, a model and its losses.

Every loss is a sum over the predictions of a batch, and how many there are is known from the
examples alone, so that a batch may be divided among devices and micro-batches as one likes.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import keras

from keras_bert.config import EncoderConfig
from keras_bert.errors import InputError
from keras_bert.pretraining.data.example_index import segments_index

Sums: TypeAlias = Callable[[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]], Any]

LARGEST = 700.0
"""A loss whose exponential is still a number."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class LossTerm:
    """A loss that is a sum over predictions, and how it is told.

    Args:
        name: in the log.
        sums: (outputs, labels, weights), each by key, to loss, right predictions and predictions.
        key: of this term's weights in a batch, and of its labels.
        over: what is predicted: "predictions" (masked tokens), "tokens" (all but padding) or
            "examples".
        labelled: whether a batch holds labels for it.
        weight: in the total loss; 0 for a term that is only watched, which has no key.
        accuracy: whether right predictions are counted.
        perplexity: whether it is that of a language, so that its perplexity is told.
        part: of the model that it is the loss of, if that is not among what is kept.
    """

    name: str
    sums: Sums
    key: str = ""
    over: str = "predictions"
    labelled: bool = False
    weight: float = 0.0
    accuracy: bool = True
    perplexity: bool = False
    part: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Objective:
    """What is trained.

    Args:
        loss_terms: the losses.
        model: (encoder's configuration, run, preprocessor, dtype) to the model that is trained. It
            has an attribute `encoder`.
        index_examples: of the examples of an epoch.
        pairs: whether an example has two texts, told apart by segment ids and compared by means
            of the pooler.
        masked: what a token that is to be guessed becomes: the shares of `[MASK]` and of random
            tokens; the rest stays.
        samples: whether the model also takes the original tokens, and noise to sample with.
        teacher: whether there is a teacher to learn from.
        averages: measures that are the mean of others.
        kept: the trained model to what remains in the end.
    """

    loss_terms: tuple[LossTerm, ...]
    model: Callable[..., keras.Model]
    index_examples: Callable[..., Any] = segments_index
    pairs: bool = False
    masked: tuple[float, float] = (0.8, 0.1)
    samples: bool = False
    teacher: bool = False
    averages: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    kept: Callable[[Any], keras.Model] = lambda model: model

    def check_encoder(self, name: str, config: EncoderConfig) -> None:
        """Passes for an encoder that can be trained so.

        Raises:
            InputError: for another.
        """
        if self.pairs and config.num_segments < 2:
            raise InputError(
                f"The objective {name!r} has two texts in an example, but this encoder of the "
                f"family {config.family!r} cannot tell them apart: its num_segments is "
                f"{config.num_segments}. Choose another objective or family."
            )
        if self.pairs and not config.pooler:
            raise InputError(
                f"The objective {name!r} compares two texts by means of the pooler, but this "
                f"encoder of the family {config.family!r} has none. Choose another objective or "
                "family."
            )

    def measures(self, sums: Any) -> dict[str, float]:
        """Sums `[loss_terms, 3]` to the mean loss and accuracy of each term, and the total loss."""
        measures = {"loss": 0.0}
        for term, (loss, right, count) in zip(self.loss_terms, sums, strict=True):
            measures[f"{term.name}_loss"] = loss / max(count, 1)
            if term.accuracy:
                measures[f"{term.name}_accuracy"] = right / max(count, 1)
            measures["loss"] += term.weight * loss / max(count, 1)
        for name, parts in self.averages.items():
            measures[name] = sum(measures[part] for part in parts) / len(parts)
        return measures

    def part_of(self, measure: str) -> str:
        """What a measure is of, if that is not kept; else ""."""
        return next((h.part for h in self.loss_terms if measure.startswith(f"{h.name}_")), "")

    def perplexities(self, measures: Mapping[str, float]) -> dict[str, float]:
        """e to the mean loss of the loss_terms that model a language."""
        return {
            f"{term.name}_perplexity": math.exp(min(measures[f"{term.name}_loss"], LARGEST))
            for term in self.loss_terms
            if term.perplexity
        }
